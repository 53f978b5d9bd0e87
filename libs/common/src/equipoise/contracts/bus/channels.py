"""The table of channels: who publishes, subscribes to and responds to each subject. NATS permissions derive from it."""

from typing import Any, Generic, TypeVar, cast

import msgspec

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import (
    ALL_SERVICES,
    NODES_EMPTYING,
    PLAN_CONSOLIDATION,
    PLAN_PREVIEW,
    PREFIX,
    SCORE_EXPLAIN,
    ServiceName,
    matches,
)
from equipoise.contracts.messages.advice import CLUSTER_REVIEW, PLACEMENT_ADVICE
from equipoise.contracts.messages.annotation import ANNOTATION_WRITTEN
from equipoise.contracts.messages.consolidation import (
    CONSOLIDATION_REQUEST,
    CONSOLIDATION_RESPONSE,
    NODES_BEING_EMPTIED,
)
from equipoise.contracts.messages.descheduling import DESCHEDULE_DECISION
from equipoise.contracts.messages.eviction import EVICTION_INTENT, EVICTION_OUTCOME
from equipoise.contracts.messages.example import DESCHEDULER, HOT_NODE, NOW, POD, POD_UID, WORKLOAD
from equipoise.contracts.messages.health import EFFECTIVE_CONFIGURATION, HEARTBEAT
from equipoise.contracts.messages.message import type_name
from equipoise.contracts.messages.placement import NODE_PLACEMENT, PLACEMENT_HINTS
from equipoise.contracts.messages.plan import PLAN_REQUEST, PLAN_RESPONSE
from equipoise.contracts.messages.reclaimed import RECLAIMED_NODE
from equipoise.contracts.messages.score import EXPLAIN_REQUEST, EXPLANATION, SCORE_DECISION
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, UTILIZATION_CYCLE, WORKLOAD_UTILIZATION

M = TypeVar("M", bound=msgspec.Struct)
K = TypeVar("K", bound=msgspec.Struct)


class Channel(msgspec.Struct, Generic[M], frozen=True, kw_only=True):
    """One row of the table: who uses these subjects, and for which message."""

    pattern: str
    """The subjects, as in NATS: `*` is one token, a final `>` one or more."""

    tokens: tuple[str, ...] = ()
    """What each `*` and `>` stands for, in order."""

    example: tuple[str, M]
    """A subject and a message on it. All messages of the channel have its type. The documentation shows it, too."""

    part: type[M] | None = None
    """A struct with some fields of the messages. If it is given, only these are decoded."""

    publishers: tuple[ServiceName, ...] = ()
    subscribers: tuple[ServiceName, ...] = ()
    observers: tuple[ServiceName, ...] = ()
    """Services that receive the messages of a work queue when they are published, but do not process them."""

    responder: ServiceName | None = None
    """The service that responds, if the messages are requests."""

    response_example: msgspec.Struct | None = None
    open_to_users: bool = False
    """Whether the user `tap` may send requests. Only for requests that change nothing."""

    @property
    def message(self) -> type[M]:
        return self.part or type(self.example[1])

    @property
    def response(self) -> type[msgspec.Struct] | None:
        return None if self.response_example is None else type(self.response_example)

    def of(self, *names: str) -> "Channel[M]":
        """The channel with only the subjects whose first variable tokens are these."""
        pattern = self.pattern
        for name in names:
            pattern = pattern.replace("*", name, 1)
        return msgspec.structs.replace(self, pattern=pattern)

    def reading(self, part: type[K]) -> "Channel[K]":
        """The channel whose messages are decoded as `part`, a struct with some of their fields."""
        return cast("Channel[K]", msgspec.structs.replace(self, part=part))


NODE_UTILIZATIONS = Channel(
    pattern=f"{PREFIX}.utilization.node.*",
    tokens=("node",),
    example=(subjects.node_utilization(HOT_NODE), NODE_UTILIZATION),
    publishers=("collector",),
    subscribers=("collector", "annotator", "scorer", "descheduler", "binder", "reclaimer"),
)
WORKLOAD_UTILIZATIONS = Channel(
    pattern=f"{PREFIX}.utilization.workload.*.*.*",
    tokens=("key", "namespace", "name"),
    example=(subjects.workload_utilization(WORKLOAD), WORKLOAD_UTILIZATION),
    publishers=("collector",),
    subscribers=("annotator", "scorer", "descheduler", "binder", "reclaimer"),
)
UTILIZATION_CYCLES = Channel(
    pattern=f"{PREFIX}.utilization.cycle.*",
    tokens=("shard",),
    example=(subjects.utilization_cycle("all"), UTILIZATION_CYCLE),
    publishers=("collector",),
    subscribers=("collector", "annotator", "scorer", "descheduler", "binder"),
)
NODE_PLACEMENTS = Channel(
    pattern=f"{PREFIX}.placement.node.*",
    tokens=("node",),
    example=(subjects.node_placement(HOT_NODE), NODE_PLACEMENT),
    publishers=("collector",),
    subscribers=("collector", "annotator", "scorer", "descheduler", "binder", "reclaimer"),
)
NAMESPACE_HINTS = Channel(
    pattern=f"{PREFIX}.placement.hint.*",
    tokens=("namespace",),
    example=(subjects.placement_hint(PLACEMENT_HINTS.namespace), PLACEMENT_HINTS),
    publishers=("scorer",),
    subscribers=("annotator",),
)
EMPTYING = Channel(
    pattern=NODES_EMPTYING,
    example=(NODES_EMPTYING, NODES_BEING_EMPTIED),
    publishers=("descheduler",),
    subscribers=("annotator", "scorer"),
)
RECLAIMED_NODES = Channel(
    pattern=f"{PREFIX}.reclaim.node.*",
    tokens=("node",),
    example=(subjects.reclaimed_node(HOT_NODE), RECLAIMED_NODE),
    publishers=("reclaimer",),
    subscribers=("reclaimer", "annotator", "scorer"),
)
EVICTION_INTENTS = Channel(
    pattern=f"{PREFIX}.eviction.intent.*.*",
    tokens=("namespace", "pod"),
    example=(subjects.eviction_intent("shop", POD), EVICTION_INTENT),
    publishers=("descheduler",),
    subscribers=("binder",),
    observers=("scorer",),
)
EVICTION_OUTCOMES = Channel(
    pattern=f"{PREFIX}.eviction.outcome.*.*",
    tokens=("namespace", "pod"),
    example=(subjects.eviction_outcome("shop", POD), EVICTION_OUTCOME),
    publishers=("binder",),
    subscribers=("scorer", "descheduler", "binder"),
)
ANNOTATIONS = Channel(
    pattern=f"{PREFIX}.annotation.>",
    tokens=("object",),
    example=(subjects.node_annotation(HOT_NODE), ANNOTATION_WRITTEN),
    publishers=("annotator",),
)
SCORE_DECISIONS = Channel(
    pattern=f"{PREFIX}.decision.scorer.>",
    tokens=("pod",),
    example=(subjects.decision("scorer", "shop", POD), SCORE_DECISION),
    publishers=("scorer",),
)
PLACEMENT_ADVICES = Channel(
    pattern=f"{PREFIX}.advice.placement.*.*.*",
    tokens=("namespace", "pod", "uid"),
    example=(subjects.placement_advice("shop", POD, POD_UID), PLACEMENT_ADVICE),
    publishers=("scorer",),
)
CLUSTER_REVIEWS = Channel(
    pattern=f"{PREFIX}.advice.cluster.*.*",
    tokens=("hour", "since"),
    example=(subjects.cluster_review(int(NOW // 3_600), int(NOW)), CLUSTER_REVIEW),
    publishers=("scorer",),
)
DESCHEDULE_DECISIONS = Channel(
    pattern=f"{PREFIX}.decision.descheduler.>",
    tokens=("strategy",),
    example=(subjects.decision("descheduler", "low_node_load"), DESCHEDULE_DECISION),
    publishers=("descheduler",),
    subscribers=("binder",),
)
EXPLANATIONS = Channel(
    pattern=SCORE_EXPLAIN,
    example=(SCORE_EXPLAIN, EXPLAIN_REQUEST),
    responder="scorer",
    response_example=EXPLANATION,
    open_to_users=True,
)
PLANS = Channel(
    pattern=PLAN_PREVIEW,
    example=(PLAN_PREVIEW, PLAN_REQUEST),
    responder="descheduler",
    response_example=PLAN_RESPONSE,
    open_to_users=True,
)
CONSOLIDATIONS = Channel(
    pattern=PLAN_CONSOLIDATION,
    example=(PLAN_CONSOLIDATION, CONSOLIDATION_REQUEST),
    responder="descheduler",
    response_example=CONSOLIDATION_RESPONSE,
    open_to_users=True,
)
HEARTBEATS = Channel(
    pattern=f"{PREFIX}.health.*.*",
    tokens=("service", "id"),
    example=(subjects.health("descheduler", DESCHEDULER), HEARTBEAT),
    publishers=ALL_SERVICES,
    subscribers=("collector", "scorer", "descheduler"),
)
CONFIGURATIONS = Channel(
    pattern=f"{PREFIX}.configuration.*.*",
    tokens=("service", "id"),
    example=(subjects.configuration("binder", EFFECTIVE_CONFIGURATION.id), EFFECTIVE_CONFIGURATION),
    publishers=ALL_SERVICES,
)

CHANNELS: tuple[Channel[Any], ...] = (
    NODE_UTILIZATIONS,
    WORKLOAD_UTILIZATIONS,
    UTILIZATION_CYCLES,
    NODE_PLACEMENTS,
    NAMESPACE_HINTS,
    EMPTYING,
    RECLAIMED_NODES,
    EVICTION_INTENTS,
    EVICTION_OUTCOMES,
    ANNOTATIONS,
    SCORE_DECISIONS,
    PLACEMENT_ADVICES,
    CLUSTER_REVIEWS,
    DESCHEDULE_DECISIONS,
    EXPLANATIONS,
    PLANS,
    CONSOLIDATIONS,
    HEARTBEATS,
    CONFIGURATIONS,
)


def message_types(pattern: str) -> frozenset[str]:
    """The `ce-type`s of the messages on the subjects of a pattern, which may cover only some subjects of a channel."""
    return frozenset(
        type_name(channel.message)
        for channel in CHANNELS
        if matches(pattern, channel.example[0]) or matches(channel.pattern, pattern)
    )
