"""How the fleet would look once the moves planned so far, and those under way, are done."""

import msgspec

from equipoise.contracts.fit import FitNode, Neighbours, neighbour_refusal, neighbours, node_refusal
from equipoise.contracts.load import RESOURCES, known, plus
from equipoise.descheduler.fleet import Fleet, FleetNode, MovablePod, Resource, shares


class Projection:
    """The working copy of one plan. Requests move with the pods: what left sets room free, what came takes it."""

    def __init__(self, fleet: Fleet, window: str) -> None:
        self._nodes = {node.name: node for node in fleet.nodes}
        self._usage = {node.name: node.projected(window) for node in fleet.nodes}
        self._fit = {node.name: node.fit for node in fleet.nodes}

    def load(self, node: FleetNode) -> dict[Resource, float]:
        """Expected load (0..1) of the resources that are known."""
        return shares(self._usage[node.name], node.base)

    def load_with(self, node: FleetNode, pod: MovablePod) -> dict[Resource, float]:
        """Expected load with one more pod."""
        # Asked for every target of every pod: written out, it takes a quarter of the time.
        usage = self._usage[node.name]
        return {
            name: (used + (known(getattr(pod.usage, name)) or 0.0)) / whole
            for name in RESOURCES
            if (used := known(getattr(usage, name))) is not None and (whole := known(getattr(node.base, name)))
        }

    def around(self, pod: MovablePod) -> Neighbours:
        """What the other pods mean to this one: gathered once, asked for every target."""
        return neighbours(pod.fit, list(self._fit.values()))

    def refusal(self, pod: MovablePod, target: FleetNode, around: Neighbours) -> str:
        """ "" when kube-scheduler's filters would let the replacement in, else why not."""
        fit = self._fit[target.name]
        return node_refusal(pod.fit, fit) or neighbour_refusal(fit, around)

    def move(self, pod: MovablePod, target: str) -> None:
        self._usage[pod.node] = plus(self._usage[pod.node], pod.usage, -1.0)
        self._usage[target] = plus(self._usage[target], pod.usage)
        self._fit[pod.node] = _without(self._fit[pod.node], pod)
        self._fit[target] = _with(self._fit[target], pod)


def _with(node: FitNode, pod: MovablePod) -> FitNode:
    return msgspec.structs.replace(node, pods=[*node.pods, pod.fit])


def _without(node: FitNode, pod: MovablePod) -> FitNode:
    return msgspec.structs.replace(node, pods=[other for other in node.pods if other.uid != pod.uid])
