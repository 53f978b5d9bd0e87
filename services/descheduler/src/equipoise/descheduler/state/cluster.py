"""The cluster as strategies see it, and what they answer."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import Thresholds
from equipoise.contracts.fit import FitNode, FitPod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, load_of, plus
from equipoise.contracts.load.pod_priority import PriorityClass, priority_class_of
from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.daily_usage import Days

Resource = Literal["cpu", "memory", "pods"]
QosClass = Literal["BestEffort", "Burstable", "Guaranteed"]


class MovablePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node, and what decides whether it may leave."""

    uid: str
    namespace: str
    name: str
    node: str
    workload: Workload | None = None
    usage: Resources = Resources()
    """Measured cores and bytes; unknown for a pod without measurement or younger than the window."""

    priority: int = 0
    qos: QosClass = "BestEffort"
    deletion_cost: int = 0
    """`controller.kubernetes.io/pod-deletion-cost`: lower leaves first."""

    eviction_cost: int = 0
    """`scheduling.koordinator.sh/eviction-cost`: likewise, asked after the deletion cost."""

    created_at: float = 0.0
    protection: str = ""
    """Why it must stay; empty when nothing speaks for that."""

    belongs_to_node: bool = False
    """A DaemonSet's or a static pod: it goes with its node."""

    fit: FitPod

    @property
    def priority_class(self) -> PriorityClass:
        """Koordinator's class of it."""
        return priority_class_of(self.fit.labels, self.priority, self.qos)

    @property
    def production(self) -> bool:
        """Does its usage count against the marks of production?"""
        return self.priority_class == "prod"


class FleetNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its load by window, and its pods."""

    name: str
    base: Resources
    """What load refers to, cores and bytes."""

    usage: Mapping[str, Resources] = {}
    """By window name: the mean, corrected for pods that came and went. A window that is not fresh is absent."""

    sampled_at: Mapping[str, float] = {}
    """By window name: the newest raw sample in it."""

    coming: Resources = Resources(cpu=0.0, memory=0.0)
    """What moves under way will bring, less what they will take: cores and bytes, negative when more leaves."""

    source_refusal: str = ""
    """Why nothing may be moved away from it."""

    target_refusal: str = ""
    """Why nothing may be moved to it."""

    unknown: str = ""
    """Why its load is not known; empty when it is."""

    pods: Sequence[MovablePod] = ()
    production: Sequence[Resources] | None = None
    """What each of its production pods uses, unknown ones too; None: `pods` tells."""

    leaving: int = 0
    """Evictions from it that are under way."""

    going: int = 0
    """Pods in `fit` that are on their way out though nothing shows it yet: their moves are under way."""

    fit: FitNode

    def load(self, window: str) -> Resources:
        """Present load (0..1) over a window; unknown resources are None."""
        return load_of(self.usage.get(window, Resources()), self.base)

    def oldest_sample(self, windows: Sequence[str]) -> float:
        """The time of the oldest sample that a decision over these windows stands on."""
        return min((self.sampled_at[window] for window in windows if window in self.sampled_at), default=0.0)

    def projected(self, window: str) -> Resources:
        """Cores and bytes once the moves under way are done."""
        usage = self.usage.get(window, Resources())
        return plus(usage, self.coming)

    def pod_count(self) -> int:
        """Its pods once the moves under way are done: those that came or are expected, less those that leave."""
        return self.fit.active_pods - self.going

    def production_usages(self) -> Sequence[Resources]:
        """What each of its production pods uses."""
        if self.production is not None:
            return self.production
        return [pod.usage for pod in self.pods if pod.production]


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one evaluation stands on."""

    now: float
    nodes: Sequence[FleetNode]
    thresholds: Thresholds
    windows: Sequence[str]
    """Every configured window, shortest first."""

    limits: "IntentLimits"
    days: Days | None = None
    """The coming day; None where nobody has said anything of it."""

    busy_workloads: Mapping[Workload, int] = {}
    """Pods of a workload that are on the move."""

    in_flight: int = 0
    """Intents that nobody has settled yet."""


class IntentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be proposed at once. Not the limits of eviction, which the binder holds: these spare it noise."""

    per_evaluation: int
    per_node: int
    per_workload: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that should leave its node."""

    pod: MovablePod
    target: str
    reason: str
    sampled_at: float
    makes_room_for: str = ""
    """`namespace/name` of the pod that is to come in its place; empty when it is moved for its own sake."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a strategy wants, what it could not have, and why nothing when nothing."""

    moves: Sequence[Move] = ()
    later: Sequence[Move] = ()
    """Moves that have no room yet: `moves` make it. They are planned anew, and proposed, once it is there."""

    refused: Sequence[RefusedMove] = ()
    why: str = ""


def shares(usage: Resources, base: Resources) -> dict[Resource, float]:
    """Load (0..1) of the resources that are known."""
    load = load_of(usage, base)
    return {name: value for name in RESOURCES if (value := getattr(load, name)) is not None}
