"""What is left of the bands of reclaimed resources on each node, from the latest messages of the reclaimer."""

import math
from collections.abc import Iterable

from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.load.correction import RESOURCES, amounts, known
from equipoise.contracts.load.latest import supersedes
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.scorer.decisions.arrays import BandRoom
from equipoise.scorer.state.reservations import NegativeReservation


class BandRows:
    """One row per node, as in the node table."""

    def __init__(self, lifetime: float) -> None:
        """`lifetime`: seconds after an evaluation of the reclaimer for which its amounts may be used."""
        self.lifetime = lifetime
        self._messages: dict[str, ReclaimedNode] = {}
        self._left: Array = np.full((1, len(OFFERED_BANDS), len(RESOURCES)), np.nan)
        """rows × bands × resources. The last row of every array stays empty: row −1 is an unknown node."""

        self._capacity: Array = np.full((1, len(RESOURCES)), np.nan)
        self._until: Array = np.full(1, -np.inf)
        """rows: Unix seconds until which the amounts may be used."""

    def on_message(self, message: ReclaimedNode) -> bool:
        """Keeps the message about a node. False for an outdated message."""
        latest = self._messages.get(message.node)
        if latest is not None and latest.uid == message.uid and not supersedes(message, latest):
            return False
        self._messages[message.node] = message
        return True

    def message(self, node: str, uid: str) -> ReclaimedNode | None:
        """The latest message of this machine."""
        message = self._messages.get(node)
        return message if message is not None and message.uid == uid else None

    def update(self, row: int, placement: NodePlacement) -> None:
        """Compute what is left on a node from its latest messages."""
        message = self.message(placement.node, placement.uid)
        if message is None:
            self.clear(row)
            return
        reclaimed = [amounts(message.bands.get(band, ReclaimedBand()).reclaimed) for band in OFFERED_BANDS]
        self._left[row] = np.array(reclaimed) - requested(placement.pods)
        self._capacity[row] = [amount or math.nan for amount in amounts(placement.capacity)]
        self._until[row] = message.evaluated_at + self.lifetime

    def clear(self, row: int) -> None:
        self._left[row], self._capacity[row], self._until[row] = np.nan, np.nan, -np.inf

    def grow(self, rows: int) -> None:
        more = rows + 1 - len(self._until)
        self._left = np.concatenate([self._left, np.full((more, *self._left.shape[1:]), np.nan)])
        self._capacity = np.concatenate([self._capacity, np.full((more, len(RESOURCES)), np.nan)])
        self._until = np.concatenate([self._until, np.full(more, -np.inf)])

    def room(
        self, rows: Rows, now: float, reserved: Array | None = None, without: NegativeReservation | None = None
    ) -> BandRoom:
        """What is left on these rows. `reserved` is rows × bands × resources: cores and bytes."""
        left = self._left.take(rows, axis=0)
        if reserved is not None and len(reserved):
            left -= np.maximum(reserved.take(rows, axis=0), 0.0)
        if without is not None and without.band_requests is not None:
            left[rows == without.row] += without.band_requests
        until = self._until.take(rows)
        # The amounts are too old, or from a clock that was ahead.
        left[(until < now) | (until > now + self.lifetime + MAX_AHEAD)] = np.nan
        return BandRoom(left=left, capacity=self._capacity.take(rows, axis=0))

    def prune(self, now: float) -> None:
        """Remove the messages of nodes that the reclaimer does not evaluate any more."""
        old = [node for node, message in self._messages.items() if message.evaluated_at + self.lifetime < now]
        for node in old:
            del self._messages[node]


def requested(pods: Iterable[PlacedPod]) -> Array:
    """bands × resources: cores and bytes that these pods request of each band."""
    total = np.zeros((len(OFFERED_BANDS), len(RESOURCES)))
    for pod in pods:
        if pod.priority_class != "prod" and (band := pod.band) is not None:
            request = pod.reclaimed_requests
            total[OFFERED_BANDS.index(band)] += [known(request.cpu) or 0.0, known(request.memory) or 0.0]
    return total
