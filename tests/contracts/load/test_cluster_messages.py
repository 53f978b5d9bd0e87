"""Removals of nodes are kept for a while, so that late messages bring no removed node back."""

from builders import NOW, a_node_utilization, a_placement

from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.load.latest import SILENCE


def removed_nodes(*names: str, at: float = NOW) -> ClusterMessages:
    """The messages after these nodes were removed, in this order."""
    messages = ClusterMessages()
    for name in names:
        assert messages.on_placement(a_placement(name, sequence=2, removed=True), at)
    return messages


def test_a_late_message_does_not_bring_a_removed_node_back() -> None:
    messages = removed_nodes("node-a", "node-b")

    assert not messages.on_placement(a_placement("node-a", sequence=1), NOW + SILENCE - 1)
    assert not messages.on_utilization(a_node_utilization("node-a"), NOW + SILENCE - 1)
    assert ({}, {}) == (messages.placements, messages.utilizations)


def test_a_removal_is_forgotten_when_another_arrives_later() -> None:
    """What is kept does not grow with the nodes that ever existed."""
    messages = removed_nodes("node-a", "node-b")
    messages.on_placement(a_placement("node-c", sequence=2, removed=True), NOW + SILENCE)

    assert messages.on_utilization(a_node_utilization("node-a"), NOW + SILENCE)
    assert messages.on_utilization(a_node_utilization("node-b"), NOW + SILENCE)
    assert not messages.on_utilization(a_node_utilization("node-c"), NOW + SILENCE)
