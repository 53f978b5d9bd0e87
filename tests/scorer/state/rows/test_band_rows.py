"""What is left of the bands on each node, from messages."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_batch_pod, a_placed_pod, a_placement, a_reclaimed_node
from numpy.testing import assert_array_equal

from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.state.rows.band_rows import BandRows

LIFETIME = 300.0
OFFERED = Resources(cpu=4.0, memory=8 * GIB)
MIDDLE = Resources(cpu=2.0, memory=4 * GIB)
UNKNOWN = np.full((2, 2), math.nan)


def rows_with(*messages: ReclaimedNode, pods: list[Any] | None = None) -> BandRows:
    rows = BandRows(LIFETIME)
    rows.grow(1)
    for message in messages:
        rows.on_message(message)
    rows.update(0, a_placement(pods=pods))
    return rows


def left(rows: BandRows, now: float = NOW) -> Array:
    """bands × resources."""
    return rows.room(np.array([0]), now).left[0]


def test_the_requests_of_the_pods_of_a_band_are_subtracted_from_it() -> None:
    """Those of terminating pods as well: kube-scheduler counts them. Ordinary pods request nothing of a band."""
    pods = [
        a_batch_pod("job-1"),
        a_batch_pod("job-2", terminating=True),
        a_batch_pod("mid-1", priority=7_500, priority_class="mid", reclaimed_requests=Resources(cpu=0.5, memory=None)),
        a_placed_pod("best-effort", priority_class="batch", requests=Resources()),
        a_placed_pod("web-1"),
    ]

    found = left(rows_with(a_reclaimed_node(batch=OFFERED, mid=MIDDLE), pods=pods))

    assert_array_equal(found, [[1.5, 4 * GIB], [2.0, 6 * GIB]])


def test_less_than_nothing_may_be_left() -> None:
    """The pods of the node requested it while there was more."""
    pods = [a_batch_pod("job-1", reclaimed_requests=Resources(cpu=5.0, memory=GIB))]

    assert -1.0 == left(rows_with(a_reclaimed_node(batch=OFFERED), pods=pods))[1, 0]


def test_amounts_that_the_reclaimer_does_not_know_are_unknown() -> None:
    """A missing resource, a negative amount, and a missing band."""
    message = a_reclaimed_node(batch=Resources(cpu=-1.0))
    only_batch = msgspec.structs.replace(message, bands={"batch": message.bands["batch"]})

    assert_array_equal(left(rows_with(only_batch)), UNKNOWN)


def test_amounts_are_unknown_when_they_are_old() -> None:
    """After the lifetime, since the evaluation."""
    rows = rows_with(a_reclaimed_node(batch=OFFERED, mid=MIDDLE))

    assert 4.0 == left(rows, NOW + LIFETIME)[1, 0]
    assert_array_equal(left(rows, NOW + LIFETIME + 1), UNKNOWN)


def test_amounts_of_another_machine_with_the_name_are_unknown() -> None:
    """The uid differs from that of the placement."""
    assert_array_equal(left(rows_with(a_reclaimed_node(batch=OFFERED, uid="an earlier machine"))), UNKNOWN)


@pytest.mark.parametrize("fields", [{"sequence": 1}, {"epoch": 0, "sequence": 9}])
def test_outdated_messages_are_dropped(fields: dict[str, Any]) -> None:
    """The amounts of the newest one count."""
    rows = rows_with(a_reclaimed_node(batch=OFFERED, sequence=2))

    assert not rows.on_message(a_reclaimed_node(batch=MIDDLE, **fields))
    rows.update(0, a_placement())
    assert 4.0 == left(rows)[1, 0]


def test_reservations_are_subtracted() -> None:
    """Rounding errors of their sums may be negative."""
    rows = rows_with(a_reclaimed_node(batch=OFFERED, mid=MIDDLE))
    reserved = np.array([[[-1e-17, 0.0], [1.0, GIB]], [[9.0, 9.0], [9.0, 9.0]]])

    found = rows.room(np.array([0]), NOW, reserved).left[0]

    assert_array_equal(found, [[2.0, 4 * GIB], [3.0, 7 * GIB]])


def test_an_unknown_node_has_unknown_amounts() -> None:
    """Row −1."""
    assert_array_equal(rows_with(a_reclaimed_node(batch=OFFERED)).room(np.array([-1]), NOW).left[0], UNKNOWN)


def test_expired_messages_are_removed() -> None:
    """Nodes come and go for years."""
    rows = rows_with(a_reclaimed_node(batch=OFFERED))
    rows.prune(NOW + LIFETIME + 1)

    assert rows.message("node-a", "uid-node-a") is None


def test_amounts_of_the_time_of_a_clock_that_was_ahead_are_unknown() -> None:
    """Otherwise they would count until then although no reclaimer renews them."""
    rows = BandRows(LIFETIME)
    rows.grow(1)
    later = NOW + 31_536_000
    rows.on_message(a_reclaimed_node(batch=OFFERED, evaluated_at=later))
    rows.update(0, a_placement(pods=[]))

    assert_array_equal(left(rows, later)[1], [4.0, 8 * GIB])
    assert_array_equal(left(rows), UNKNOWN)
