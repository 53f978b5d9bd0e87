"""Reservations. Until a scored pod is placed, its expected usage counts on the best nodes of its response.

Without them, every pod of a burst would get the same best node, because placements arrive with a delay. A negative
reservation takes a placed pod off its node, so that a request can score the pod as if it were pending.
"""

import msgspec

from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.numeric import Array, Rows, np


class PodReservation(msgspec.Struct, frozen=True, kw_only=True):
    """The expected usage of one scored pod, divided evenly among the best nodes of its response."""

    rows: Rows
    """Rows of the node table, without duplicates."""

    usage: Array
    """windows × resources: cores and bytes on each of these rows."""

    best: frozenset[str]
    """Names of the best nodes."""

    chance: float
    """Probability (0..1) that a random choice among the candidates is one of the best nodes."""

    expires_at: float


class NegativeReservation(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts to add to the row of a node so that one placed pod is not counted. Most are negative."""

    row: int
    load: Array
    """(mean, then each statistic) × windows × resources: share of the base."""

    requests: Array
    """Requested amounts per resource, cores and bytes."""

    limits: Array
    """Limits per resource, cores and bytes."""

    daily_load: Array | None
    """resources × slots: share of the base; None where daily loads are not kept."""

    placed_at: float
    """The time of the placement, so that the pod does not count among recent placements."""

    band_requests: Array | None = None
    """bands × resources: the requests of the pod, which are added to the amounts left; None: it has no band."""


class Reservations:
    """All reservations that have not expired. All have the same lifetime, so the oldest expires first."""

    def __init__(self, lifetime: float) -> None:
        """`lifetime` in seconds."""
        self._lifetime = lifetime
        self._reservations: dict[str, PodReservation] = {}
        self._sum: Array = np.zeros((0, 0, 0))

    def __len__(self) -> int:
        return len(self._reservations)

    def __contains__(self, uid: object) -> bool:
        return uid in self._reservations

    def reserve(self, uid: str, *, rows: Rows, usage: Array, best: frozenset[str], chance: float, now: float) -> None:
        """Reserve `usage` (windows × resources) in equal parts on `rows`. Replaces the pod's earlier reservation."""
        self.release(uid)
        if not len(rows):
            return
        share = usage / len(rows)
        self._reservations[uid] = PodReservation(
            rows=rows, usage=share, best=best, chance=chance, expires_at=now + self._lifetime
        )
        self._resize(int(rows.max()) + 1, usage)
        self._sum[rows] += share

    def release(self, uid: str) -> PodReservation | None:
        """End the reservation of a pod, which was placed or is scored again, and return it."""
        reservation = self._reservations.pop(uid, None)
        if reservation is None:
            return None
        self._sum[reservation.rows] -= reservation.usage
        if not self._reservations:
            self._sum[:] = 0.0  # additions and subtractions leave rounding errors
        return reservation

    def prune(self, now: float) -> None:
        """End expired reservations, and those made before the clock was set back."""
        while self._reservations:
            uid, reservation = next(iter(self._reservations.items()))
            if now < reservation.expires_at <= now + self._lifetime + FUTURE_TOLERANCE:
                break
            self.release(uid)

    def total(self, capacity: int, now: float, *, without: str = "") -> Array | None:
        """rows × windows × resources: the sum of all reservations, up to rounding errors; None without reservations.

        `without`: UID of a pod whose reservation does not count. Do not change the returned array: it may be the
        internal one.
        """
        self.prune(now)
        if not self._reservations:
            return None
        self._resize(capacity, self._sum[0])
        total = self._sum[:capacity]
        if (own := self._reservations.get(without)) is not None:
            total = total.copy()
            total[own.rows] -= own.usage
        return total

    def count(self, row: int, *, without: str = "") -> int:
        """Number of reservations on a row, without that of the pod with the UID `without`."""
        return sum(uid != without and row in reserved.rows for uid, reserved in self._reservations.items())

    def _resize(self, rows: int, cell: Array) -> None:
        if self._sum.shape[1:] != cell.shape:
            self._sum = np.zeros((0, *cell.shape))
        if len(self._sum) < rows:
            self._sum = np.concatenate([self._sum, np.zeros((rows - len(self._sum), *cell.shape))])
