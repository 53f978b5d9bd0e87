"""The latest measurement and placement of each node. Pods are kept encoded: a cluster has 150,000 of them."""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from equipoise.cli.cluster_now.waiting import waiting_text
from equipoise.cli.views.rows import NodeRow, PodRow
from equipoise.contracts.kubernetes.nodes.consolidation_taint import tainted_text
from equipoise.contracts.load.correction import base_problem, is_fresh, known, load_of
from equipoise.contracts.load.latest import supersedes_placement, supersedes_utilization
from equipoise.contracts.messages.descheduling import NodeClassification, NodeState, most_urgent
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources

NOT_MEASURED = "no measurement received yet"
NOT_READY = "the node is not Ready"
TOO_OLD = "its newest sample is too old"
NO_WINDOW = "samples cover no window"
NO_USAGE = "no value of this resource"

DIGITS = 3
"""Decimal places of loads: a change below 0.1 % is none, and is not sent."""

PLAN_LIFETIME = 90.0
"""Seconds for which the loads of a plan are shown; while the view is watched, there is one every half a minute."""

_PODS = msgspec.msgpack.Decoder(list[tuple[str, str, str, str, float | None, float | None, bool]])
_USAGE = msgspec.msgpack.Decoder(dict[str, tuple[float | None, float | None]])
_ENCODER = msgspec.msgpack.Encoder()


class _Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The values by which messages about a node are ordered."""

    uid: str
    epoch: int
    sequence: int


class MeasuredOrder(_Order, frozen=True, kw_only=True, gc=False):
    """The values by which its measurements are ordered."""

    queried_at: float


class PlacedOrder(_Order, frozen=True, kw_only=True, gc=False):
    """The values by which its placements are ordered."""

    created_at: float
    removed: bool


class KnownNode:
    """What is known of one node."""

    __slots__ = (
        "_base",
        "_classified",
        "_emptied",
        "_load",
        "_measured",
        "_missing",
        "_placed",
        "_planned",
        "_pods",
        "_ready",
        "_requests",
        "_sampled_at",
        "_set_apart",
        "_unknown_in_evaluation",
        "_usage",
        "_waits",
        "_window",
        "name",
        "pod_count",
        "received_at",
    )  # fmt: skip

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.received_at = now
        """The time at which a message about it was received last."""

        self.pod_count: int | None = None
        self._measured: MeasuredOrder | None = None
        self._placed: PlacedOrder | None = None
        self._load = Resources()
        self._base = Resources()
        self._sampled_at: float | None = None
        self._window = ""
        self._requests = Resources()
        self._ready = True
        self._set_apart = ""
        self._emptied = ""
        self._waits = ""
        self._pods = b""
        self._usage = b""
        self._missing = ""
        self._unknown_in_evaluation = ""
        self._classified: dict[str, NodeState] = {}
        self._planned: tuple[float, Resources] = 0.0, Resources()
        """The time of the last plan, and the load of the node in it; unknown if the node is not in it."""

    def measure(self, message: NodeUtilization, now: float) -> bool:
        """False for a message that is older than the latest one."""
        if not supersedes_utilization(message, self._measured, now):
            return False
        self._measured = converted(message, MeasuredOrder)
        self.received_at = now
        self._window, window = next(iter(message.windows.items()), ("", None))
        self._base = message.base
        self._load = Resources() if window is None else load_of(window.mean, message.base)
        self._sampled_at = message.sampled_at if window is None else window.sampled_at
        self._usage = _ENCODER.encode({uid: (usage.cpu, usage.memory) for uid, usage in message.pods.items()})
        self._waits = waiting_text(message.pressure)
        self._missing = ""
        return True

    def place(self, message: NodePlacement, now: float) -> bool:
        """False for a message that is older than the latest one. A removal must not be passed to this method."""
        if not supersedes_placement(message, self._placed, now):
            return False
        self._placed = converted(message, PlacedOrder)
        self.received_at = now
        cpu = memory = 0.0
        for pod in message.pods:  # a request that is not given reserves nothing
            cpu += pod.requests.cpu or 0.0
            memory += pod.requests.memory or 0.0
        self._requests = load_of(Resources(cpu=cpu, memory=memory), message.allocatable)
        self.pod_count = len(message.pods)
        self._ready, self._set_apart, self._emptied = message.ready, message.set_apart, tainted_text(message.taints)
        self._pods = _ENCODER.encode(
            [
                (
                    pod.uid, pod.namespace, pod.name, "" if pod.workload is None else str(pod.workload),
                    pod.requests.cpu, pod.requests.memory, pod.detached,
                )
                for pod in message.pods
            ]
        )  # fmt: skip
        return True

    def is_removed_by(self, message: NodePlacement, now: float) -> bool:
        """Whether this removal is not older than what is known."""
        return supersedes_placement(message, self._placed, now)

    def classify(self, strategy: str, classification: NodeClassification | None) -> None:
        """None: the strategy did not classify it. Its load is used until a measurement is received."""
        if classification is None:
            self._classified.pop(strategy, None)
            return
        self._classified[strategy] = classification.state
        if self._measured is None and classification.sampled_at > (self._sampled_at or 0.0):
            self._load, self._sampled_at = classification.load, classification.sampled_at
            self._window = "the last evaluation"
            self._unknown_in_evaluation = classification.why if classification.state == "unknown" else ""

    def plan(
        self, planned_at: float, states: Mapping[str, NodeState], strategies: Collection[str], load: Resources
    ) -> None:
        """Use the states of the last plan, by strategy. A node that is not in it is neither hot nor sparse.

        `strategies`: those whose abnormal nodes are all in the plan. `load`: the load of the node in the plan, or
        unknown.
        """
        self._planned = planned_at, load
        for strategy in {*strategies, *states}:
            if strategy in states:
                self._classified[strategy] = states[strategy]
            elif self._classified.get(strategy) in ("hot", "sparse"):
                self._classified[strategy] = "between"

    def expect(self, why_missing: str) -> None:
        """`why_missing`: why the collector has no data of this node; "" if it no longer reports that."""
        self._missing = why_missing

    @property
    def exists(self) -> bool:
        """Whether a message was about this node alone, or the last messages about all nodes still mention it."""
        return bool(self._measured or self._placed or self._classified or self._missing)

    def expired_between(self, before: float, now: float, max_age: float) -> bool:
        """Whether its sample became too old in that time."""
        return self._sampled_at is not None and before - max_age <= self._sampled_at < now - max_age

    def row(self, now: float, max_age: float) -> NodeRow:
        """`max_age`: seconds for which a sample is used."""
        load, why = self._known_load(now, max_age)
        state = most_urgent(self._classified.values())
        return NodeRow(
            self.name, _rounded(load.cpu), _rounded(load.memory), why,
            _rounded(self._requests.cpu), _rounded(self._requests.memory), self.pod_count, state, self._set_apart,
            self._emptied,
            {name: round(share, DIGITS) for name, share in (load.further or {}).items()},
            self._waits if load != Resources() else "",
        )  # fmt: skip

    def _known_load(self, now: float, max_age: float) -> tuple[Resources, str]:
        if self._sampled_at is None:
            return Resources(), self._missing or (NOT_READY if not self._ready else NOT_MEASURED)
        if not is_fresh(self._sampled_at, now, max_age):
            return Resources(), self._missing or (NOT_READY if not self._ready else TOO_OLD)
        if known(self._load.cpu) is None or known(self._load.memory) is None:
            why = self._missing or (self._unknown_in_evaluation if self._measured is None else "")
            offered = "" if self._measured is None else base_problem(self._base)
            return self._load, why or offered or (NO_USAGE if self._window else NO_WINDOW)
        planned_at, planned = self._planned
        in_plan = known(planned.cpu) is not None and known(planned.memory) is not None
        return planned if in_plan and now - planned_at <= PLAN_LIFETIME else self._load, ""

    def pods(self, workload: str | None = None) -> Iterator[PodRow]:
        """Its pods, or those of one workload; their usage is unknown until it is measured."""
        pods = _PODS.decode(self._pods) if self._pods else ()
        if workload is not None:
            pods = [pod for pod in pods if pod[3] == workload]
        usage = _USAGE.decode(self._usage) if pods and self._usage else {}
        for uid, namespace, name, owner, cpu, memory, detached in pods:
            used = usage.get(uid, (None, None))
            yield PodRow(
                namespace=namespace,
                pod=name,
                workload=owner,
                node=self.name,
                cpu=known(used[0]),
                memory=known(used[1]),
                cpu_requests=cpu,
                memory_requests=memory,
                detached=detached,
            )

    def facts(self) -> dict[str, str | float | None]:
        """What the rows do not show, for one node: window, time of the sample, base."""
        return {
            "window": self._window,
            "sampledAt": self._sampled_at,
            "baseCpu": self._base.cpu,
            "baseMemory": self._base.memory,
        }


def _rounded(share: float | None) -> float | None:
    return None if known(share) is None or share is None else round(share, DIGITS)
