"""The nodes that a pod requires, as one selector."""

import pytest

from equipoise.contracts.kubernetes.labels import integer, required_nodes, satisfies, selects_node
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity, PodSpec


def a_term(zone: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[SelectorRequirement(key="zone", operator="In", values=[zone])])


def affinity(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[*terms])))


NAMED_B = NodeSelectorTerm(match_fields=[SelectorRequirement(key="metadata.name", operator="In", values=["b"])])
NODES = {
    "a": {"pool": "gpu", "zone": "1"},
    "b": {"pool": "gpu", "zone": "2"},
    "c": {"pool": "web", "zone": "1"},
    "d": {},
}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        (PodSpec(node_selector={"pool": "gpu"}), "ab"),
        (PodSpec(node_selector={"pool": "gpu", "zone": "1"}), "a"),
        (PodSpec(affinity=affinity(a_term("1"), a_term("2"))), "abc"),
        (PodSpec(node_selector={"pool": "gpu"}, affinity=affinity(a_term("1"))), "a"),
        (PodSpec(node_selector={"pool": "gpu"}, affinity=affinity(a_term("1"), NAMED_B)), "ab"),
        (PodSpec(node_selector={"pool": "gpu"}, affinity=affinity(NodeSelectorTerm())), ""),
        (PodSpec(affinity=affinity(NAMED_B)), "b"),
    ],
    ids=["a label", "labels", "affinity", "both", "both, with a name", "both, with an empty term", "a name"],
)
def test_node_selector_and_required_affinity_are_one_selector(spec: PodSpec, nodes: str) -> None:
    """Each label of the node selector, and one term of the affinity, match. A term without requirements never does."""
    selector = required_nodes(spec)

    assert selector is not None
    assert nodes == "".join(name for name, labels in NODES.items() if selects_node(selector, name, labels))


def test_a_pod_that_requires_nothing_has_no_selector() -> None:
    """Also if it has other rules."""
    assert required_nodes(PodSpec()) is None
    assert required_nodes(PodSpec(affinity=Affinity())) is None


@pytest.mark.parametrize("value", ["1_000", " 7", "٧", "9" * 19, "", "abc"])
def test_comparisons_are_of_integers_as_go_reads_them(value: str) -> None:
    assert not satisfies(value, "Gt", ["5"])
    assert not satisfies("7", "Lt", [value])
    assert satisfies("007", "Gt", ["+5"])


@pytest.mark.parametrize(
    ("text", "number"),
    [("9" * 5_000, None), ("0" * 5_000 + "7", 7), ("-9223372036854775808", -(2**63)), ("9223372036854775808", None)],
    ids=["too long", "zeros", "lowest", "too high"],
)
def test_a_number_of_any_length_is_read_as_64_bits_or_not_at_all(text: str, number: int | None) -> None:
    """Nothing limits the values of a pod's node affinity."""
    assert integer(text) == number
    assert satisfies(text, "Gt", ["1"]) == (number is not None and number > 1)
