"""The latest message about nodes that are being emptied counts, as long as it is valid."""

import pytest
from builders import NOW, nodes_being_emptied

from equipoise.contracts.bus.decoding import refusal
from equipoise.contracts.load.emptying import Emptying
from equipoise.contracts.messages.consolidation import MAX_NODES, MAX_VALIDITY


def test_nodes_are_being_emptied_while_the_message_is_valid() -> None:
    latest = Emptying()
    assert latest.on_message(nodes_being_emptied("a", "b"), NOW)

    assert {uid: node.node for uid, node in latest.nodes(NOW + 600).items()} == {"uid-a": "a", "uid-b": "b"}
    assert latest.nodes(NOW + 601) == {}


def test_without_a_message_no_node_is_being_emptied() -> None:
    assert Emptying().nodes(NOW) == {}


def test_an_older_message_is_dropped_and_a_newer_one_replaces_all_nodes() -> None:
    latest = Emptying()
    latest.on_message(nodes_being_emptied("a", at=NOW + 1), NOW + 1)

    assert not latest.on_message(nodes_being_emptied("b"), NOW + 2)
    assert list(latest.nodes(NOW + 2)) == ["uid-a"]
    assert latest.on_message(nodes_being_emptied(at=NOW + 3), NOW + 3)
    assert latest.nodes(NOW + 3) == {}


def test_a_message_of_the_future_is_dropped() -> None:
    """It would be the latest one until then."""
    latest = Emptying()

    assert not latest.on_message(nodes_being_emptied("a", at=NOW + 60), NOW)
    assert latest.nodes(NOW + 60) == {}


def test_a_message_that_was_received_while_the_clock_was_ahead_counts_no_longer() -> None:
    latest = Emptying()
    latest.on_message(nodes_being_emptied("a", at=NOW + 3_000), NOW + 3_000)

    assert latest.nodes(NOW) == {}
    assert latest.on_message(nodes_being_emptied("b"), NOW)
    assert list(latest.nodes(NOW)) == ["uid-b"]


@pytest.mark.parametrize(("validity", "refused"), [(MAX_VALIDITY, False), (MAX_VALIDITY + 1, True)])
def test_a_message_that_would_be_valid_for_more_than_an_hour_is_refused(validity: float, refused: bool) -> None:
    """No descheduler would be left that could withdraw it."""
    assert bool(refusal(nodes_being_emptied("a", validity=validity))) == refused


def test_a_message_with_more_nodes_than_are_emptied_at_the_same_time_is_refused() -> None:
    """Scores and hints would avoid the whole cluster."""
    assert not refusal(nodes_being_emptied(*map(str, range(MAX_NODES))))
    assert refusal(nodes_being_emptied(*map(str, range(MAX_NODES + 1))))


def test_the_text_of_a_node_states_since_when_and_why() -> None:
    [node] = nodes_being_emptied("a").nodes
    assert node.text == "being emptied by consolidation since 2027-01-15 08:00 UTC: few pods"


@pytest.mark.parametrize(("validity", "kept"), [(600.0, 600.0), (-5.0, 1.0)])
def test_the_stream_keeps_the_message_as_long_as_it_is_valid(validity: float, kept: float) -> None:
    assert nodes_being_emptied("a", validity=validity).max_age == kept
