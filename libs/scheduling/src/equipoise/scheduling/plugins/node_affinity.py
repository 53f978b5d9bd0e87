"""NodeAffinity: the node selector and node affinity of a pod, and the affinity that the configuration adds."""

from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.labels import integer, is_label_value, selects_node
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector
from equipoise.contracts.kubernetes.objects.pod import NodeAffinity as Affinity
from equipoise.contracts.kubernetes.objects.pod import PreferredNodes
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, is_update_of, node_became_suitable
from equipoise.scheduling.framework.plugin import SKIPPED, PreFiltered, Refusal
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus, unresolvable
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.normalization import normalized

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinityPlugin:
    name = "NodeAffinity"

    def __init__(self, added: Affinity | None = None) -> None:
        """`added`: the affinity that applies to every pod (`addedAffinity`)."""
        self._added_required = added.required if added else None
        self._added_key = msgspec.json.encode(self._added_required)
        self._added_preferred = added.preferred if added else []

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        """Restricts the search to the named nodes if every term requires nodes by name."""
        required = pod.required_nodes
        if required is None and self._added_required is None:
            return SKIPPED
        affinity = pod.pod.spec.affinity
        own = affinity.node_affinity.required if affinity and affinity.node_affinity else None
        names = _named(own) if own is not None else None
        if names is not None and not names:
            return PreFiltered(status=unresolvable(REASON_CONFLICT))
        return PreFiltered(nodes=names)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        refusals: list[Refusal] = []
        for selector, key, reason in (
            (self._added_required, self._added_key, REASON_ADDED),
            (pod.required_nodes, pod.shape.required_nodes_key, REASON),
        ):
            if selector is None:
                continue
            refused = ~snapshot.labels.selected(selector, key)[rows]
            for earlier in refusals:
                refused &= ~earlier.nodes
            refusals.append(Refusal(nodes=refused, reason=reason, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
        return refusals

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """Raises ValueError for a term that cannot be read. As in kube-scheduler, the attempt then ends with an
        error."""
        preferred = self._preferred(pod)
        for term in preferred:
            for rule in term.preference.match_expressions if term.weight else ():
                if why := _unreadable(rule):
                    raise ValueError(f"{rule.key} {rule.operator} {rule.values}: {why}")
        return SUCCESS if preferred else SKIP

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The sum of the weights of the preferred terms that match."""
        total = np.zeros(len(rows), dtype=np.int64)
        for term in self._preferred(pod):
            if term.weight:
                total += term.weight * _preferred_nodes(snapshot, term)[rows]
        return total

    def normalize(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, scores: Ints) -> Ints:
        return normalized(scores)

    def _preferred(self, pod: PodInfo) -> Sequence[PreferredNodes]:
        affinity = pod.pod.spec.affinity
        own = affinity.node_affinity.preferred if affinity and affinity.node_affinity else []
        return [*self._added_preferred, *own] if self._added_preferred else own

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a node became suitable. The affinity of a pod can be changed only while it has scheduling gates."""
        selectors = [selector for selector in (self._added_required, pod.required_nodes) if selector is not None]
        return is_update_of(event, pod) or node_became_suitable(
            event,
            lambda node: all(
                selects_node(selector, node.metadata.name, node.metadata.labels) for selector in selectors
            ),
        )


def _unreadable(rule: SelectorRequirement) -> str | None:
    """Why a requirement cannot be read; None if it can. The API server checks only the requirements of required
    terms."""
    if not all(map(is_label_value, rule.values)):
        return "the values of labels begin and end with letters or digits"
    if rule.operator in ("Gt", "Lt") and any(integer(value) is None for value in rule.values):
        return "the value must be an integer"
    return None


def _preferred_nodes(snapshot: ClusterSnapshot, preferred: PreferredNodes) -> Flags:
    selector = NodeSelector(node_selector_terms=[preferred.preference])
    return snapshot.labels.selected(selector, msgspec.json.encode(selector))


def _named(selector: NodeSelector) -> frozenset[str] | None:
    """The names of the nodes that may match, if each term requires nodes by name; None if other nodes may match."""
    names: set[str] = set()
    for term in selector.node_selector_terms:
        required: frozenset[str] | None = None
        for rule in term.match_fields:
            if rule.key == "metadata.name" and rule.operator == "In":
                values = frozenset(rule.values)
                required = values if required is None else required & values
        if required is None:
            return None
        names |= required
    return frozenset(names) if selector.node_selector_terms else None
