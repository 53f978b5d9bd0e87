"""What was promised and is not placed yet: between an answer and its placement, a pod is on its best nodes in part.

Without it a burst of pods would all be told the same best node, as placements need a moment to be heard.
"""

import msgspec
import numpy as np

from equipoise.scorer.state.arrays import Array, Rows


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: the pod's usage, divided evenly over the nodes of its top level."""

    rows: Rows
    """Rows of the fleet, each once."""

    usage: Array
    """windows × resources, cores and bytes booked on each of these rows."""

    best: frozenset[str]
    """Names of the nodes of the top level."""

    chance: float
    """Probability (0..1) that a blind choice among the candidates meets the top level."""

    expires_at: float


class Reservations:
    """All bookings that live. Times are handed in; every booking lives equally long, so the oldest ends first."""

    def __init__(self, life: float) -> None:
        self._life = life
        self._bookings: dict[str, Booking] = {}
        self._booked: Array = np.zeros((0, 0, 0))

    def __len__(self) -> int:
        return len(self._bookings)

    def __contains__(self, uid: object) -> bool:
        return uid in self._bookings

    def book(self, uid: str, *, rows: Rows, usage: Array, best: frozenset[str], chance: float, now: float) -> None:
        """Book `usage` in equal parts on `rows`. A pod that asks again replaces its own booking."""
        self.release(uid)
        if not len(rows):
            return
        booking = Booking(rows=rows, usage=usage / len(rows), best=best, chance=chance, expires_at=now + self._life)
        self._bookings[uid] = booking
        self._fit(int(rows.max()) + 1, usage)
        self._booked[rows] += booking.usage

    def release(self, uid: str) -> Booking | None:
        """The pod was placed, or asks again: its booking ends. Returns it."""
        booking = self._bookings.pop(uid, None)
        if booking is None:
            return None
        self._booked[booking.rows] -= booking.usage
        if not self._bookings:
            self._booked[:] = 0.0  # sums and differences leave crumbs
        return booking

    def booked(self, capacity: int, now: float, *, asking: str = "") -> Array | None:
        """rows × windows × resources: what lies on each row now, but for crumbs of rounding; None when nothing does.
        It is the array that is kept: not to be written to.

        Without the booking of the pod that asks (a UID): it is not in its own way.
        """
        while self._bookings:
            uid, booking = next(iter(self._bookings.items()))
            if booking.expires_at > now:
                break
            self.release(uid)
        if not self._bookings:
            return None
        self._fit(capacity, self._booked[0])
        booked = self._booked[:capacity]
        if (own := self._bookings.get(asking)) is not None:
            booked = booked.copy()
            booked[own.rows] -= own.usage
        return booked

    def count(self, row: int, *, asking: str = "") -> int:
        """How many bookings lie on a row, but for that of the pod that asks."""
        return sum(uid != asking and row in booking.rows for uid, booking in self._bookings.items())

    def _fit(self, rows: int, cell: Array) -> None:
        if self._booked.shape[1:] != cell.shape:
            self._booked = np.zeros((0, *cell.shape))
        if len(self._booked) < rows:
            self._booked = np.concatenate([self._booked, np.zeros((rows - len(self._booked), *cell.shape))])
