"""What the tap shows of the bus."""

import pytest
from builders import a_node_utilization, an_intent

from equipoise.cli.endings import WrongInput
from equipoise.cli.tap import channels_of, covered, describe
from equipoise.contracts.bus.subjects import CHANNELS
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization


def test_no_subject_means_everything() -> None:
    """One subscription per row of the table of subjects."""
    assert [(channel.pattern, channel.message) for channel in CHANNELS] == covered("")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("utilization.node.node-a", [("equipoise.utilization.node.node-a", NodeUtilization)]),
        ("equipoise.utilization.node.*", [("equipoise.utilization.node.*", NodeUtilization)]),
        (
            "eviction.>",
            [
                ("equipoise.eviction.intent.*.*", EvictionIntent),
                ("equipoise.eviction.outcome.*.*", EvictionOutcome),
            ],
        ),
        ("placement", [("equipoise.placement.node.*", NodePlacement)]),
        (
            "*.node.node-a",
            [
                ("equipoise.utilization.node.node-a", NodeUtilization),
                ("equipoise.placement.node.node-a", NodePlacement),
                ("equipoise.annotation.node.node-a", AnnotationWritten),
                ("equipoise.health.node.node-a", Heartbeat),
            ],
        ),
        ("annotation.node.node-a", [("equipoise.annotation.node.node-a", AnnotationWritten)]),
        ("unheard.of", []),
    ],
)
def test_a_pattern_is_heard_with_the_messages_it_covers(given: str, expected: list[tuple[str, type]]) -> None:
    """The prefix may be left out, and so may an end that means everything below."""
    assert expected == covered(given)


def test_a_subject_that_nobody_uses_is_wrong_input() -> None:
    """The message shows where something is said."""
    with pytest.raises(WrongInput, match=r"'utilisation': try advice.cluster, .*eviction.intent"):
        channels_of("utilisation")


def test_a_message_is_a_line_for_people() -> None:
    """An intent says where from, where to, and why."""
    line = describe(an_intent())

    assert "should leave node-a for node-b: node is overutilized, cpu usage(68.53%)>threshold(50.00%)" == line


def test_an_unknown_value_is_shown_as_unknown() -> None:
    """Never as 0."""
    assert "5m ?, 4.00 GiB" in describe(a_node_utilization(cpu=None))
