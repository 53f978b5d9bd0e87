"""A node and a pod as strategies see them."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.colocation.bands import requests_reclaimed
from equipoise.contracts.kubernetes.nodes.platforms import Platform
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.requests import Amounts, amounts_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, load_of, plus
from equipoise.contracts.load.pod_priority import PriorityClass, Qos, is_batch_work, priority_class_of
from equipoise.contracts.load.pressure import ContendedResource
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.messages.values.resources import Resources

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo

Resource = str
"""cpu, memory, pods, or the name of a further resource (`load.resources`)."""


class MovablePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node, and everything that decides whether it may leave."""

    uid: str
    namespace: str
    name: str
    node: str
    workload: Workload | None = None
    usage: Resources = Resources()
    """Measured cores and bytes; unknown for a pod that was not measured over the whole window."""

    priority: int = 0
    qos: Qos = "BestEffort"
    deletion_cost: int = 0
    """`controller.kubernetes.io/pod-deletion-cost`: lower leaves first."""

    eviction_cost: int = 0
    """`scheduling.koordinator.sh/eviction-cost`: lower leaves first among equal deletion costs."""

    created_at: float = 0.0
    start: float | None = None
    """Seconds from its creation until it was ready; None if unknown."""

    protection: str = ""
    """Why the pod must not be moved; empty when it may be."""

    postponed: bool = False
    """Whether a cooldown is why: the pod may be moved when it has ended."""

    without_gap: bool = False
    """Whether it is evicted only when its replacement is ready."""

    platforms: frozenset[Platform] = frozenset()
    """The platforms of the nodes on which pods of its workload are ready. Empty: all nodes have the same one."""

    belongs_to_node: bool = False
    """A pod of a DaemonSet or a static pod: it is removed together with its node."""

    info: "PodInfo"
    """Requests and constraints, which its replacement has, too."""

    @property
    def priority_class(self) -> PriorityClass:
        """Its priority class as Koordinator defines it."""
        return priority_class_of(self.info.labels, self.priority, self.qos)

    @property
    def production(self) -> bool:
        """Whether its usage counts against the thresholds of production."""
        return self.priority_class == "prod"

    @property
    def batch_work(self) -> bool:
        """Whether it gives way to the other pods of its node."""
        return is_batch_work(self.priority_class, self.priority, reclaimed=requests_reclaimed(self.info.requests))


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node, its load by window, and its pods. Pods moved in a dry run are on their targets."""

    name: str
    base: Resources
    """Cores and bytes that are 100 % load."""

    usage: Mapping[str, Resources] = {}
    """The mean by window name, corrected for pods that arrived or left. Windows without a fresh value are absent."""

    expected: Mapping[str, Resources] = {}
    """Cores and bytes in `usage` that are only expected, of pods that are not measured yet, by window name. They limit
    what may be moved to the node, but no pod is evicted because of them: this load may never come."""

    sampled_at: Mapping[str, float] = {}
    """The time of the newest raw sample, by window name."""

    coming: Resources = Resources(cpu=0.0, memory=0.0)
    """Cores and bytes that pending moves will add, minus what they will remove; may be negative."""

    terminating: Resources = Resources(cpu=0.0, memory=0.0)
    """Cores and bytes in `usage` that terminating pods use. They are subtracted before more pods have to leave."""

    terminating_production: Resources = Resources(cpu=0.0, memory=0.0)
    """The same for terminating production pods, which `production` does not contain."""

    resources: Mapping[str, str] = {}
    """The further resources that it should have, and why the load of each is unknown; empty if it is known."""

    source_refusal: str = ""
    """Why no pod may be moved away from it."""

    target_refusal: str = ""
    """Why no pod may be moved to it."""

    being_emptied: bool = False
    """Whether this leader empties it, whether or not it has the taint already."""

    unknown: str = ""
    """Why its load is not known; empty when it is."""

    pods: Sequence[MovablePod] = ()
    production: Sequence[Resources] | None = None
    """Usage of each of its production pods, unknown ones included; None: derived from `pods`."""

    batch_work: Sequence[Resources] | None = None
    """Usage of each pod that gives way to others and stays, unknown ones included; None: derived from `pods`."""

    pressure: NodePressure | None = None
    """The measured pressure, also where dry runs have moved pods; None if it is unknown."""

    contention: Mapping[ContendedResource, float] = {}
    """The share of time (0..1) in which pods wait for others, by resource with pressure above its threshold. Empty
    while moves away from the node are pending or dry runs: their effect on pressure is not known before it is
    measured."""

    uncontended: frozenset[ContendedResource] = frozenset()
    """The resources with a threshold for which it is known that no pod waits for others."""

    leaving: int = 0
    """Pending evictions from it."""

    going: Collection[str] = ()
    """The UIDs of the pods in `occupying` with a pending move away from the node that are not terminating yet."""

    object: Node
    occupying: Sequence["PodInfo"] = ()
    """The pods that take room: those on the node, nominated ones, and the expected replacements of pending moves."""

    @property
    def labels(self) -> Mapping[str, str]:
        return self.object.metadata.labels

    @cached_property
    def allocatable(self) -> Amounts:
        """The allocatable amounts by resource name, in its base unit."""
        return amounts_of(self.object.status.allocatable)

    @cached_property
    def requested(self) -> Amounts:
        """The requests of the pods that take room, in the units of `allocatable`."""
        total: dict[str, int] = {}
        for pod in self.occupying:
            for resource, amount in pod.requests.items():
                total[resource] = total.get(resource, 0) + amount
        return {resource: amount / 1_000 if resource == "cpu" else float(amount) for resource, amount in total.items()}

    def load(self, window: str) -> Resources:
        """Current load (0..1) over a window; unknown resources are None."""
        return load_of(self.usage.get(window, Resources()), self.base)

    def oldest_sample(self, windows: Sequence[str]) -> float:
        """Time of the oldest of the newest samples in these windows; 0 when there is none."""
        return min((self.sampled_at[window] for window in windows if window in self.sampled_at), default=0.0)

    def remaining(self, window: str) -> Resources:
        """Cores and bytes without what terminating pods use."""
        return plus(self.usage.get(window, Resources()), self.terminating, -1.0)

    def projected(self, window: str) -> Resources:
        """Cores and bytes once the pending moves are done and the terminating pods have ended."""
        return plus(self.remaining(window), self.coming)

    @cached_property
    def pod_count(self) -> int:
        """Number of pods once the pending moves are done."""
        return sum(not pod.terminating for pod in self.occupying) - len(self.going)

    def production_usages(self) -> Sequence[Resources]:
        """Usage of each of its production pods."""
        if self.production is not None:
            return self.production
        return [pod.usage for pod in self.pods if pod.production]

    def batch_work_usages(self) -> Sequence[Resources]:
        """Usage of each of its pods that give way to others."""
        if self.batch_work is not None:
            return self.batch_work
        return [pod.usage for pod in self.pods if pod.batch_work]


def shares(usage: Resources, base: Resources) -> dict[Resource, float]:
    """Load (0..1) of the resources that are known."""
    load = load_of(usage, base)
    known_loads: dict[Resource, float] = {
        name: value for name in RESOURCES if (value := getattr(load, name)) is not None
    }
    return {**known_loads, **load.further} if load.further else known_loads
