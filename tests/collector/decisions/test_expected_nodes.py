"""Which nodes are expected to have data."""

from datetime import UTC, datetime
from typing import Any

import pytest
from builders import NOW

from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus, Taint


def a_node(*, age: float = 1_000.0, ready: str = "True", **fields: Any) -> Node:
    return Node(
        metadata=ObjectMeta(
            name="a", labels=fields.get("labels", {}), creation_timestamp=datetime.fromtimestamp(NOW - age, UTC)
        ),
        spec=NodeSpec(taints=fields.get("taints", [])),
        status=NodeStatus(conditions=[Condition(type="Ready", status=ready)]),
    )


@pytest.mark.parametrize(
    ("node", "word"),
    [
        (a_node(), ""),
        (a_node(labels={"kubernetes.io/os": "linux", "type": "large"}), ""),
        (a_node(labels={"type": "virtual-kubelet"}), "virtual"),
        (a_node(taints=[Taint(key="virtual-kubelet.io/provider")]), "virtual"),
        (a_node(labels={"kubernetes.io/os": "windows"}), "Windows"),
    ],
)
def test_virtual_and_windows_nodes_may_have_no_data(node: Node, word: str) -> None:
    """By the labels and taints that virtual-kubelet and kubelets set."""
    assert word in unmeasurable(node)
    assert bool(unmeasurable(node)) == bool(word)


def test_nodes_that_a_setting_names_may_have_no_data() -> None:
    """Nodes with all labels of an entry may lack data; the setting is named."""
    unmeasured = ({"pool": "edge", "zone": "a"}, {"bare": ""})

    assert "collector.unmeasuredNodes has pool=edge, zone=a" == unmeasurable(
        a_node(labels={"pool": "edge", "zone": "a", "x": "y"}), unmeasured
    )
    assert unmeasurable(a_node(labels={"bare": ""}), unmeasured)
    assert not unmeasurable(a_node(labels={"pool": "edge"}), unmeasured)


def test_a_node_is_expected_when_it_is_ready_and_old_enough() -> None:
    """Age since its creation, in seconds."""
    assert not_yet_expected(a_node(age=300.0), NOW, 300.0) == ""
    assert not_yet_expected(a_node(age=299.0), NOW, 300.0) == "created 299 s ago: data is expected after 300 s"
    assert not_yet_expected(a_node(ready="Unknown"), NOW, 300.0) == "not Ready"


def test_a_node_that_was_created_while_a_clock_was_ahead_is_expected() -> None:
    """Otherwise the coverage would leave it out until then, perhaps for years."""
    assert not_yet_expected(a_node(age=-31_536_000.0), NOW, 300.0) == ""
