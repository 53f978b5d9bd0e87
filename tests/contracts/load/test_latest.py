"""Which message of a subject is the newest."""

import pytest
from builders import NOW, a_node_utilization, a_placement

from equipoise.contracts.load.latest import SILENCE, is_acceptable, supersedes, supersedes_measurement


@pytest.mark.parametrize(
    ("epoch", "sequence", "newer"), [(2, 0, True), (1, 6, True), (1, 5, True), (1, 4, False), (0, 99, False)]
)
def test_epoch_then_sequence_orders_messages(epoch: int, sequence: int, newer: bool) -> None:
    """A lower one is dropped; the same again is accepted, because it changes nothing."""
    latest = a_placement("node-a", epoch=1, sequence=5)

    assert supersedes(a_placement("node-a", epoch=epoch, sequence=sequence), latest) is newer


def test_the_first_message_is_the_newest() -> None:
    """Without an earlier one there is nothing to compare."""
    assert supersedes(a_placement("node-a", epoch=0, sequence=0), None)
    assert supersedes_measurement(a_node_utilization(epoch=0, sequence=0), None)


def test_a_lower_epoch_is_accepted_again_after_a_while() -> None:
    """A node that was taken over by a collector with a lower epoch must not stay unknown."""
    latest = a_node_utilization(epoch=2, sequence=9, queried_at=NOW)

    assert not supersedes_measurement(a_node_utilization(epoch=1, queried_at=NOW + SILENCE), latest)
    assert supersedes_measurement(a_node_utilization(epoch=1, queried_at=NOW + SILENCE + 1), latest)


def test_a_measurement_of_the_far_future_is_not_acceptable() -> None:
    """It would remain the newest of its subject until then. Clocks may differ by a little."""
    assert is_acceptable(a_node_utilization(queried_at=NOW + 180), NOW)
    assert not is_acceptable(a_node_utilization(queried_at=NOW + 181), NOW)
