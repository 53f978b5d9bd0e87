"""Reservations of scored pods that are not placed yet."""

import numpy as np
from builders import NOW

from equipoise.contracts.numeric import Array
from equipoise.scorer.state.reservations import Reservations

USAGE = np.full((2, 2), 6.0)


def reserve(reservations: Reservations, uid: str, rows: list[int], now: float = NOW) -> None:
    best = frozenset(f"n{row}" for row in rows)
    reservations.reserve(uid, rows=np.array(rows, np.intp), usage=USAGE, best=best, chance=0.5, now=now)


def total(reservations: Reservations, now: float = NOW, without: str = "") -> list[float]:
    array: Array | None = reservations.total(4, now, without=without)
    return [] if array is None else array[:, 0, 0].tolist()


def test_usage_is_reserved_in_equal_parts_on_the_best_nodes() -> None:
    """With three best nodes, a third on each."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0, 1, 3])

    assert total(reservations) == [2.0, 2.0, 0.0, 2.0]


def test_a_second_request_replaces_the_reservation() -> None:
    """A pod that could not be placed and is scored again does not count twice."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0, 1, 3])
    reserve(reservations, "a", [2])

    assert total(reservations) == [0.0, 0.0, 6.0, 0.0]


def test_the_reservation_of_a_placed_pod_is_released() -> None:
    """Other reservations are kept."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0])
    reserve(reservations, "b", [0, 1])

    released = reservations.release("a")

    assert released is not None
    assert released.best == {"n0"}
    assert total(reservations) == [3.0, 3.0, 0.0, 0.0]
    assert reservations.release("a") is None


def test_a_pods_own_reservation_can_be_left_out() -> None:
    """Without a change of the reservations."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0])
    reserve(reservations, "b", [0, 1])

    assert total(reservations, without="b") == [6.0, 0.0, 0.0, 0.0]
    assert (reservations.count(0), reservations.count(0, without="b")) == (2, 1)
    assert total(reservations) == [9.0, 3.0, 0.0, 0.0]


def test_reservations_expire() -> None:
    """After two seconds, if the pod was not placed."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0], NOW)
    reserve(reservations, "b", [1], NOW + 1)

    assert total(reservations, NOW + 1.9) == [6.0, 6.0, 0.0, 0.0]
    assert total(reservations, NOW + 2.1) == [0.0, 6.0, 0.0, 0.0]
    assert total(reservations, NOW + 3.1) == []
    assert len(reservations) == 0


def test_pruned_reservations_are_not_counted() -> None:
    """Also when no request follows."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0], NOW)
    reserve(reservations, "b", [1], NOW + 1)

    reservations.prune(NOW + 2.1)

    assert "a" not in reservations
    assert len(reservations) == 1
    assert total(reservations, NOW + 2.1) == [0.0, 6.0, 0.0, 0.0]


def test_rounding_errors_do_not_accumulate() -> None:
    """After the last release the sum is exactly 0."""
    reservations = Reservations(2.0)
    for number in range(1_000):
        reserve(reservations, f"p{number}", [0, 1, 2])
    for number in range(999):
        reservations.release(f"p{number}")

    assert np.allclose(total(reservations), [2.0, 2.0, 2.0, 0.0])

    reservations.release("p999")
    reserve(reservations, "last", [3])

    assert total(reservations) == [0.0, 0.0, 0.0, 6.0]


def test_reservations_of_the_time_of_a_clock_that_was_ahead_end() -> None:
    """Otherwise their nodes would look full until then, perhaps for years."""
    reservations = Reservations(2.0)
    reserve(reservations, "a", [0, 1], now=NOW + 31_536_000)
    reserve(reservations, "b", [2])

    assert total(reservations) == [0.0, 0.0, 6.0, 0.0]
