"""The nodes with pods of a workload, and what they are expected to use after a scale-down."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.annotator.decisions.deletion_order import NodeOutlook
from equipoise.annotator.decisions.scale_down import ScaleDown
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.load.latest import supersedes_placement
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources

STATIC = frozenset({"DaemonSet", "Node"})
"""Kinds of workloads whose pods remain on their node."""


class PodOfWorkload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a placed pod that is needed here."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    placed_at: float
    terminating: bool = False
    detached: bool = False

    @property
    def may_be_scaled_down(self) -> bool:
        """Whether the controller of its workload may delete it. A detached pod has none."""
        return not self.terminating and not self.detached


class PodsOfNode(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a placement message that is needed here."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    created_at: float = 0.0
    removed: bool = False
    pods: list[PodOfWorkload] = []
    epoch: int
    sequence: int


class PlacedPods:
    """The latest placement of each node."""

    def __init__(self) -> None:
        self.nodes: dict[str, PodsOfNode] = {}

    def on_placement(self, placement: PodsOfNode, now: float) -> bool:
        """Keeps the placement of a node. False if it is older than the one that is kept."""
        if not supersedes_placement(placement, self.nodes.get(placement.node), now):
            return False
        if placement.removed:
            self.nodes.pop(placement.node, None)
        else:
            self.nodes[placement.node] = placement
        return True

    def pods_of(self, workloads: Collection[Workload]) -> dict[Workload, dict[str, list[PodOfWorkload]]]:
        """The pods that may be scaled down of these workloads, by node; the youngest of a node are first."""
        found: dict[Workload, dict[str, list[PodOfWorkload]]] = {workload: {} for workload in workloads}
        for name, node in list(self.nodes.items()):  # this runs in a thread while nodes are added
            for pod in node.pods:
                if pod.workload in found and pod.may_be_scaled_down:
                    found[pod.workload].setdefault(name, []).append(pod)
        for nodes in found.values():
            for pods in nodes.values():
                pods.sort(key=lambda pod: (-pod.placed_at, pod.name))
        return found


Usage = Mapping[str, Sequence[float | None]]
"""The usage of one pod of a workload in each hour of a day, by resource."""


def node_outlook(
    node: PodsOfNode,
    pods: Sequence[str],
    workload: Workload,
    utilization: NodeUtilization | None,
    window: str,
    profiles: Mapping[Workload, WorkloadUtilization],
    expected: ScaleDown,
) -> NodeOutlook:
    """The expected loads of a node in the hours after a scale-down.

    load(hour) = (usage now + Σ over its pods (profile(hour) − profile(now))) / base. A pod without a profile is
    expected to use what it uses now, and so is the system. `utilization`: None if the usage of the node is unknown now;
    `window`: the one that shows it. `pods`: names of the pods of the workload that may go, in the
    order in which they should.
    """
    others = sum(pod.workload is None or pod.workload.kind not in STATIC for pod in node.pods)
    own = sum(pod.workload == workload and pod.may_be_scaled_down for pod in node.pods)
    loads: list[float] = []
    relief: list[float] = []
    used = None if utilization is None else utilization.windows.get(window)
    if utilization is not None and used is not None:
        counts: defaultdict[Workload, int] = defaultdict(int)
        for pod in node.pods:
            if pod.workload is not None and not pod.terminating:
                counts[pod.workload] += 1
        days = {each: found.profile for each in counts if (found := profiles.get(each)) is not None}
        hours = [(expected.hour + number) % SLOTS for number in range(expected.hours)]
        for resource in ("cpu", "memory"):
            mean, base = _amount(used.mean, resource), _amount(utilization.base, resource)
            if mean is None or base is None or base <= 0:
                continue
            for hour in hours:
                change = sum(
                    count * _difference(days[each], resource, (expected.hour - 1) % SLOTS, hour)
                    for each, count in counts.items()
                    if each in days
                )
                loads.append(max(0.0, mean + change) / base)
                relief.append((_at(days.get(workload, {}), resource, hour) or 0.0) / base)
    return NodeOutlook(
        pods=pods,
        kept=max(0, own - len(pods)),
        other_pods=others - len(pods),
        loads=loads,
        relief=relief,
        labels=node.labels,
    )


def _amount(amounts: Resources, resource: str) -> float | None:
    return amounts.cpu if resource == "cpu" else amounts.memory


def _at(day: Usage, resource: str, hour: int) -> float | None:
    hours = day.get(resource, ())
    return hours[hour] if hour < len(hours) else None


def _difference(day: Usage, resource: str, now: int, hour: int) -> float:
    """How much more a pod uses in another hour; 0 if one of both is unknown."""
    before, after = _at(day, resource, now), _at(day, resource, hour)
    return 0.0 if before is None or after is None else after - before
