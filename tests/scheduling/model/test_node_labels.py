"""Selectors of nodes, evaluated for all nodes at once."""

from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_node

from equipoise.contracts.kubernetes.labels import satisfies, selects_node
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import Node, NodeSelector, NodeSelectorTerm
from equipoise.scheduling.model.node_labels import LabelColumn, NodeLabels

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "in")
TEXTS = st.sampled_from(
    ["", "a", "b", "0", "-0", "+7", "007", "-3", "12", "٣", "1.5", "9" * 19, str(2**63 - 1), str(-(2**63)), "9" * 30]
)


class CountedReads(list[str]):
    """How often the values of a requirement are read."""

    reads = 0

    def __iter__(self) -> Any:
        self.reads += 1
        return super().__iter__()

    def __contains__(self, key: object) -> bool:
        self.reads += 1
        return super().__contains__(key)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        self.reads += 1
        return super().__getitem__(index)


@given(st.lists(st.none() | TEXTS, max_size=8), st.sampled_from(OPERATORS), st.lists(TEXTS, max_size=3))
def test_a_column_decides_as_each_of_its_values_alone(
    labels: list[str | None], operator: str, values: list[str]
) -> None:
    """Whatever the values of the label and of the requirement; None: a node without the label."""
    found = LabelColumn(labels).satisfying(operator, values).tolist()

    assert found == [satisfies(label, operator, values) for label in labels]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_values_of_a_requirement_are_read_once_whatever_the_number_of_nodes(operator: str) -> None:
    """A requirement may have tens of thousands of values, and a cluster thousands of nodes."""
    values = CountedReads(["7"])
    LabelColumn([str(number) for number in range(50)]).satisfying(operator, values)

    assert values.reads <= 1


def test_the_labels_of_nodes_are_read_as_numbers_once() -> None:
    """Thousands of requirements may compare the same label."""
    column = LabelColumn(["1", "2", None, "x"])
    column.satisfying("Gt", ["1"])

    assert column.numbers is column.numbers
    assert column.satisfying("Lt", ["2"]).tolist() == [True, False, False, False]


def test_labels_that_no_node_has_share_a_column() -> None:
    """A pod may name tens of thousands of them, of which each would take 8 bytes per node."""
    labels = NodeLabels([a_node(name="a", labels={"zone": "z"}), None])

    assert labels.column("absent") is labels.column("other")
    assert labels.column("absent").satisfying("DoesNotExist", []).tolist() == [True, True]
    assert labels.column("zone") is not labels.column("absent")


def test_a_label_that_a_node_gets_is_no_longer_absent() -> None:
    """Once the labels were forgotten, because a node has changed."""
    nodes: list[Node | None] = [a_node(name="a")]
    labels = NodeLabels(nodes)
    assert labels.column("zone").values == []
    nodes[0] = a_node(name="a", labels={"zone": "z"})
    labels.forget()

    assert labels.column("zone").values == ["z"]


KEYS = st.sampled_from(["zone", "size", "absent"])
REQUIREMENTS = st.lists(
    st.builds(
        lambda key, operator, values: SelectorRequirement(key=key, operator=operator, values=values),
        KEYS, st.sampled_from(OPERATORS), st.lists(TEXTS, max_size=2),
    ),
    max_size=3,
)  # fmt: skip
NAMES = st.lists(
    st.builds(
        lambda key, operator, values: SelectorRequirement(key=key, operator=operator, values=values),
        st.sampled_from(["metadata.name", "metadata.uid"]), st.sampled_from(OPERATORS),
        st.lists(st.sampled_from(["node-0", "node-1"]), max_size=2),
    ),
    max_size=1,
)  # fmt: skip
TERMS = st.lists(
    st.builds(
        lambda labels, fields: NodeSelectorTerm(match_expressions=labels, match_fields=fields), REQUIREMENTS, NAMES
    ),
    max_size=3,
)


@given(st.lists(st.dictionaries(st.sampled_from(["zone", "size"]), TEXTS), min_size=1, max_size=4), TERMS)
def test_a_selector_selects_the_nodes_that_it_selects_alone(
    labels: list[dict[str, str]], terms: list[NodeSelectorTerm]
) -> None:
    """With any number of terms and requirements, on labels and on the name."""
    nodes = [a_node(name=f"node-{index}", labels=own) for index, own in enumerate(labels)]
    selector = NodeSelector(node_selector_terms=terms)

    assert NodeLabels(nodes).selected(selector, b"").tolist() == [
        selects_node(selector, node.metadata.name, node.metadata.labels) for node in nodes
    ]
