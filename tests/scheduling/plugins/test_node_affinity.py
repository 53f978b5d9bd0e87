"""NodeAffinity: what kube-scheduler does with requirements that cannot be met or read."""

import pytest
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity, PreferredNodes
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.node_affinity import REASON_CONFLICT, NodeAffinityPlugin


def requiring(*terms: NodeSelectorTerm) -> PodInfo:
    required = NodeSelector(node_selector_terms=list(terms))
    return a_pod(affinity=Affinity(node_affinity=NodeAffinity(required=required)))


def named(*names: str) -> NodeSelectorTerm:
    """The node with each of these names."""
    return NodeSelectorTerm(
        match_fields=[SelectorRequirement(key="metadata.name", operator="In", values=[name]) for name in names]
    )


def test_a_term_that_requires_two_names_is_a_conflict() -> None:
    found = NodeAffinityPlugin().pre_filter(CycleState(), requiring(named("a", "b")), ClusterSnapshot([a_node("a")]))

    assert (found.status.reasons, found.nodes) == ((REASON_CONFLICT,), None)


def test_another_term_resolves_the_conflict() -> None:
    pod = requiring(named("a", "b"), named("b"))

    assert NodeAffinityPlugin().pre_filter(CycleState(), pod, ClusterSnapshot([a_node("a")])).nodes == {"b"}


@pytest.mark.parametrize(
    ("value", "fails"), [("5", False), ("+5", True), ("1_000", True), ("", True), ("9" * 19, True)]
)
def test_a_preference_that_cannot_be_read_is_an_error(value: str, fails: bool) -> None:
    bound = SelectorRequirement(key="number", operator="Gt", values=[value])
    preferred = [PreferredNodes(weight=1, preference=NodeSelectorTerm(match_expressions=[bound]))]
    pod = a_pod(affinity=Affinity(node_affinity=NodeAffinity(preferred=preferred)))
    snapshot = ClusterSnapshot([a_node("a", labels={"number": "7"})])

    if fails:
        with pytest.raises(PluginFailed, match="the value"):
            a_framework(NodeAffinityPlugin()).score(CycleState(), pod, snapshot, snapshot.rows)
    else:
        assert a_framework(NodeAffinityPlugin()).score(CycleState(), pod, snapshot, snapshot.rows).total.tolist() == [
            100
        ]
