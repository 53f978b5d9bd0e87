"""Every subject and stream of the bus, and who may say and hear what. The permission file is made from this."""

from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.score import ScoreDecision
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization

PREFIX = "equipoise"

ServiceName = Literal["collector", "annotator", "scorer", "descheduler", "binder"]
SERVICES: tuple[ServiceName, ...] = ("collector", "annotator", "scorer", "descheduler", "binder")

UTILIZATION_MAX_AGE: float = 1_800
"""Seconds for which the last utilization of a node that is gone is kept, and the last round of a shard."""


def token(name: str) -> str:
    """A Kubernetes name as one token of a subject. Reversible: Kubernetes names hold no `_`."""
    return name.replace(".", "_")


def name_of(token_text: str) -> str:
    return token_text.replace("_", ".")


def node_utilization(node: str) -> str:
    return f"{PREFIX}.utilization.node.{token(node)}"


def workload_utilization(workload: Workload) -> str:
    return f"{PREFIX}.utilization.workload.{workload.key}.{token(workload.namespace)}.{token(workload.name)}"


def utilization_cycle(shard: str) -> str:
    return f"{PREFIX}.utilization.cycle.{token(shard)}"


def node_placement(node: str) -> str:
    return f"{PREFIX}.placement.node.{token(node)}"


def eviction_intent(namespace: str, pod: str) -> str:
    return f"{PREFIX}.eviction.intent.{token(namespace)}.{token(pod)}"


def eviction_outcome(namespace: str, pod: str) -> str:
    return f"{PREFIX}.eviction.outcome.{token(namespace)}.{token(pod)}"


def node_annotation(node: str) -> str:
    return f"{PREFIX}.annotation.node.{token(node)}"


def workload_annotation(workload: Workload) -> str:
    return f"{PREFIX}.annotation.workload.{workload.key}.{token(workload.namespace)}.{token(workload.name)}"


def decision(service: ServiceName, *rest: str) -> str:
    return ".".join((PREFIX, "decision", service, *(token(part) for part in rest)))


def placement_advice(namespace: str, pod: str, uid: str) -> str:
    return f"{PREFIX}.advice.placement.{token(namespace)}.{token(pod)}.{token(uid)}"


def cluster_review(hour: int, since: int) -> str:
    """`hour`: full hours since 1970; `since`: the Unix second at which the part of it begins."""
    return f"{PREFIX}.advice.cluster.{hour}.{since}"


def health(service: str, instance: str) -> str:
    return f"{PREFIX}.health.{service}.{token(instance)}"


SCORE_EXPLAIN = f"{PREFIX}.score.explain"
PLAN_PREVIEW = f"{PREFIX}.plan.preview"


def micro_name(service: str) -> str:
    """How a service calls itself where micro services are listed."""
    return f"{PREFIX}-{service}"


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """How JetStream keeps the messages of some subjects. All are file-backed: a restart loses nothing."""

    name: str
    subjects: tuple[str, ...]
    last_per_subject: bool = False
    work_queue: bool = False
    """One reader shares the work; a second message of a waiting subject is refused."""

    open_to_users: bool = False
    """Programs of people (the user tap) may read what it holds."""

    max_age: float | None = None
    """Seconds."""

    max_bytes: int | None = None


STREAMS: tuple[Stream, ...] = (
    Stream(
        name="EQUIPOISE_UTILIZATION",
        subjects=(f"{PREFIX}.utilization.>",),
        last_per_subject=True,
        max_age=UTILIZATION_MAX_AGE,
    ),
    Stream(name="EQUIPOISE_PLACEMENT", subjects=(f"{PREFIX}.placement.>",), last_per_subject=True),
    Stream(name="EQUIPOISE_INTENT", subjects=(f"{PREFIX}.eviction.intent.>",), work_queue=True, max_age=180),
    Stream(
        name="EQUIPOISE_OUTCOME",
        subjects=(f"{PREFIX}.eviction.outcome.>",),
        open_to_users=True,
        max_age=86_400,
        max_bytes=256 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_DECISION",
        subjects=(f"{PREFIX}.annotation.>", f"{PREFIX}.decision.>"),
        open_to_users=True,
        max_age=86_400,
        max_bytes=256 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_ADVICE",
        subjects=(f"{PREFIX}.advice.>",),
        last_per_subject=True,
        open_to_users=True,
        max_age=8 * 86_400,  # a week, and the day on which somebody looks at it
        max_bytes=256 * 2**20,
    ),
)


WORKERS = "binder"
"""The durable consumer of the work queue, which all binders share."""


def with_max_ages(*, intent: float, utilization: float) -> tuple[Stream, ...]:
    """The streams, with the lives (seconds) that the configuration gives to intents and to utilization."""
    lives = {"EQUIPOISE_INTENT": intent, "EQUIPOISE_UTILIZATION": utilization}
    return tuple(msgspec.structs.replace(stream, max_age=lives.get(stream.name, stream.max_age)) for stream in STREAMS)


def matches(pattern: str, subject: str) -> bool:
    """Does a pattern of NATS (`*` one token, a last `>` one or more) cover this subject?"""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        if len(tokens) < len(wanted):
            return False
        wanted.pop()
        tokens = tokens[: len(wanted)]
    return len(wanted) == len(tokens) and all(
        want in ("*", token_text) for want, token_text in zip(wanted, tokens, strict=True)
    )


def stream_of(subject: str) -> Stream | None:
    """The stream that keeps this subject (or pattern), if any does."""
    return next(
        (stream for stream in STREAMS for pattern in stream.subjects if subject.startswith(pattern.removesuffix(">"))),
        None,
    )


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the design's subject table."""

    pattern: str
    """As NATS reads it: `*` is one token, a last `>` one or more."""

    tokens: tuple[str, ...] = ()
    """What stands for each `*` and `>`, in order, as people call it."""

    message: type[msgspec.Struct]
    publishers: tuple[ServiceName, ...]
    subscribers: tuple[ServiceName, ...]
    observers: tuple[ServiceName, ...] = ()
    """Those that hear a work queue's messages as they are said, and have no share in the work."""

    responder: ServiceName | None = None
    """Set for request/reply: callers send requests, this one responds."""

    response: type[msgspec.Struct] | None = None
    """What it answers with."""

    open_to_users: bool = False
    """Who may watch the bus may ask this too: the answer changes nothing."""


CHANNELS: tuple[Channel, ...] = (
    Channel(
        pattern=f"{PREFIX}.utilization.node.*",
        tokens=("node",),
        message=NodeUtilization,
        publishers=("collector",),
        subscribers=("annotator", "scorer", "descheduler", "binder"),
    ),
    Channel(
        pattern=f"{PREFIX}.utilization.workload.*.*.*",
        tokens=("key", "namespace", "name"),
        message=WorkloadUtilization,
        publishers=("collector",),
        subscribers=("annotator", "scorer", "descheduler"),
    ),
    Channel(
        pattern=f"{PREFIX}.utilization.cycle.*",
        tokens=("shard",),
        message=UtilizationCycle,
        publishers=("collector",),
        subscribers=("collector", "annotator", "scorer", "descheduler", "binder"),
    ),
    Channel(
        pattern=f"{PREFIX}.placement.node.*",
        tokens=("node",),
        message=NodePlacement,
        publishers=("collector",),
        subscribers=("collector", "annotator", "scorer", "binder"),
    ),
    Channel(
        pattern=f"{PREFIX}.eviction.intent.*.*",
        tokens=("namespace", "pod"),
        message=EvictionIntent,
        publishers=("descheduler",),
        subscribers=("binder",),
        observers=("scorer",),
    ),
    Channel(
        pattern=f"{PREFIX}.eviction.outcome.*.*",
        tokens=("namespace", "pod"),
        message=EvictionOutcome,
        publishers=("binder",),
        subscribers=("scorer", "descheduler"),
    ),
    Channel(
        pattern=f"{PREFIX}.annotation.>",
        tokens=("object",),
        message=AnnotationWritten,
        publishers=("annotator",),
        subscribers=(),
    ),
    Channel(
        pattern=f"{PREFIX}.decision.scorer.>",
        tokens=("pod",),
        message=ScoreDecision,
        publishers=("scorer",),
        subscribers=(),
    ),
    Channel(
        pattern=f"{PREFIX}.advice.placement.*.*.*",
        tokens=("namespace", "pod", "uid"),
        message=PlacementAdvice,
        publishers=("scorer",),
        subscribers=(),
    ),
    Channel(
        pattern=f"{PREFIX}.advice.cluster.*.*",
        tokens=("hour", "since"),
        message=ClusterReview,
        publishers=("scorer",),
        subscribers=(),
    ),
    Channel(
        pattern=f"{PREFIX}.decision.descheduler.>",
        tokens=("strategy",),
        message=DescheduleDecision,
        publishers=("descheduler",),
        subscribers=(),
    ),
    Channel(
        pattern=SCORE_EXPLAIN,
        message=ExplainRequest,
        publishers=(),
        subscribers=(),
        responder="scorer",
        response=Explanation,
        open_to_users=True,
    ),
    Channel(
        pattern=PLAN_PREVIEW,
        message=PlanRequest,
        publishers=(),
        subscribers=(),
        responder="descheduler",
        response=PlanResponse,
        open_to_users=True,
    ),
    Channel(
        pattern=f"{PREFIX}.health.*.*",
        tokens=("service", "id"),
        message=Heartbeat,
        publishers=SERVICES,
        subscribers=("collector", "descheduler"),
    ),
)
