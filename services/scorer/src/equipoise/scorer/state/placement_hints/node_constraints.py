"""Decides which nodes pods can use, by the taints that they tolerate, the labels that they require, and the platforms
on which their images have run.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from equipoise.contracts.kubernetes.labels import selects_node
from equipoise.contracts.kubernetes.nodes.platforms import Platform, runs_on
from equipoise.contracts.kubernetes.nodes.taints import tolerates
from equipoise.contracts.kubernetes.objects.node import NodeSelector
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.numeric import Flags, np
from equipoise.scorer.state.placement_hints.node_snapshot import NodeSnapshot


class NodeConstraints:
    """The constraints of pods, each evaluated once for all nodes: most pods have the same ones, or none."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._snapshot = snapshot
        self._tolerated: dict[tuple[Toleration, ...], Flags] = {}
        self._selected: dict[bytes, Flags] = {}
        """The nodes that a selector selects, by the selector as JSON."""

        self._platforms = tuple({*snapshot.platforms})
        """The platforms of the nodes, without repetition: nearly always one."""

        self._platform = np.array([self._platforms.index(platform) for platform in snapshot.platforms], np.intp)
        """The platform of each node, an index of `_platforms`."""

    def prepare(self, pods: Iterable[PlacedPod]) -> Iterator[None]:
        """Evaluates the node selectors of these pods, one per step."""
        for pod in pods:
            selectors = len(self._selected)
            if pod.node_selector is not None:
                self._matching(pod.node_selector)
            if len(self._selected) > selectors:
                yield

    def allowed(self, pod: PlacedPod | None, platforms: Collection[Platform]) -> Flags:
        """The nodes that the pod may use. A pod of which nothing is known (None) tolerates no taint.

        `platforms`: the platforms on which pods of its workload have been ready.
        """
        allowed = self._allowed(pod)
        if len(self._platforms) < 2:
            return allowed
        required = None if pod is None else pod.node_selector
        runs = np.array([runs_on(platform, platforms, required) for platform in self._platforms], np.bool_)
        allowed_and_run: Flags = allowed & runs[self._platform]
        return allowed_and_run

    def _allowed(self, pod: PlacedPod | None) -> Flags:
        tolerations = () if pod is None else pod.tolerations
        if tolerations not in self._tolerated:
            self._tolerated[tolerations] = _tolerated(tolerations, self._snapshot)
        tolerated = self._tolerated[tolerations]
        if pod is None or pod.node_selector is None:
            return tolerated
        return tolerated & self._matching(pod.node_selector)

    def _matching(self, selector: NodeSelector) -> Flags:
        key = msgspec.json.encode(selector)
        if key not in self._selected:
            self._selected[key] = _selected(selector, self._snapshot)
        return self._selected[key]


def _tolerated(tolerations: tuple[Toleration, ...], snapshot: NodeSnapshot) -> Flags:
    by_set = [all(tolerates(tolerations, taint) for taint in taints) for taints in snapshot.taints]
    tolerated: Flags = np.array(by_set, np.bool_)[snapshot.taint_set]
    return tolerated


def _selected(selector: NodeSelector, snapshot: NodeSnapshot) -> Flags:
    """The nodes that the selector selects. It is evaluated once for all nodes with the same values of the labels and
    the name that it reads."""
    terms = selector.node_selector_terms
    keys = dict.fromkeys(rule.key for term in terms for rule in term.match_expressions)
    reads_name = any(term.match_fields for term in terms)
    results: dict[tuple[str | None, ...], bool] = {}
    selected = np.zeros(len(snapshot.hostnames), np.bool_)
    for column, (name, labels) in enumerate(zip(snapshot.nodes.names, snapshot.labels, strict=True)):
        values = (name if reads_name else None, *map(labels.get, keys))
        if values not in results:
            results[values] = selects_node(selector, name, labels)
        selected[column] = results[values]
    return selected
