"""What was promised and is not placed yet."""

import numpy as np
from builders import NOW

from equipoise.scorer.state.arrays import Array
from equipoise.scorer.state.reservations import Reservations

USAGE = np.full((2, 2), 6.0)


def book(reservations: Reservations, uid: str, rows: list[int], now: float = NOW) -> None:
    best = frozenset(f"n{row}" for row in rows)
    reservations.book(uid, rows=np.array(rows, np.intp), usage=USAGE, best=best, chance=0.5, now=now)


def booked(reservations: Reservations, now: float = NOW) -> list[float]:
    array: Array | None = reservations.booked(4, now)
    return [] if array is None else array[:, 0, 0].tolist()


def test_a_pod_is_booked_in_equal_parts_on_its_best_nodes() -> None:
    """With three nodes at the top, each gets a third."""
    reservations = Reservations(2.0)
    book(reservations, "a", [0, 1, 3])

    assert booked(reservations) == [2.0, 2.0, 0.0, 2.0]


def test_asking_again_replaces_the_booking() -> None:
    """A pod that failed to be placed and asks again is not there twice."""
    reservations = Reservations(2.0)
    book(reservations, "a", [0, 1, 3])
    book(reservations, "a", [2])

    assert booked(reservations) == [0.0, 0.0, 6.0, 0.0]


def test_a_placed_pod_is_released() -> None:
    """Its placement counts from now on; who else is booked stays."""
    reservations = Reservations(2.0)
    book(reservations, "a", [0])
    book(reservations, "b", [0, 1])

    booking = reservations.release("a")

    assert booking is not None
    assert booking.best == {"n0"}
    assert booked(reservations) == [3.0, 3.0, 0.0, 0.0]
    assert reservations.release("a") is None


def test_bookings_end_by_themselves() -> None:
    """After two seconds a pod that was never placed is forgotten, and nothing of it is left."""
    reservations = Reservations(2.0)
    book(reservations, "a", [0], NOW)
    book(reservations, "b", [1], NOW + 1)

    assert booked(reservations, NOW + 1.9) == [6.0, 6.0, 0.0, 0.0]
    assert booked(reservations, NOW + 2.1) == [0.0, 6.0, 0.0, 0.0]
    assert booked(reservations, NOW + 3.1) == []
    assert len(reservations) == 0


def test_many_bookings_leave_no_crumbs() -> None:
    """What was added in thirds is gone when the last booking is."""
    reservations = Reservations(2.0)
    for number in range(1_000):
        book(reservations, f"p{number}", [0, 1, 2])
    for number in range(999):
        reservations.release(f"p{number}")

    assert np.allclose(booked(reservations), [2.0, 2.0, 2.0, 0.0])

    reservations.release("p999")
    book(reservations, "last", [3])

    assert booked(reservations) == [0.0, 0.0, 0.0, 6.0]
