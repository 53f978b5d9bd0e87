"""Which nodes are being emptied now, by the latest message about them."""

from collections.abc import Mapping

from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.messages.consolidation import NodeBeingEmptied, NodesBeingEmptied


class Emptying:
    """The nodes of the latest message about nodes that are being emptied. `now`: Unix seconds."""

    def __init__(self) -> None:
        self._latest: NodesBeingEmptied | None = None
        self._by_uid: Mapping[str, NodeBeingEmptied] = {}

    def on_message(self, message: NodesBeingEmptied, now: float) -> bool:
        """Stores a message. Returns False if it is older than the latest one, or dated in the future."""
        until = now + CLOCK_TOLERANCE
        if message.evaluated_at > until:
            return False
        # A latest message of the future was received while this clock was ahead.
        if self._latest is not None and message.evaluated_at < self._latest.evaluated_at <= until:
            return False
        self._latest, self._by_uid = message, {node.uid: node for node in message.nodes}
        return True

    def nodes(self, now: float) -> Mapping[str, NodeBeingEmptied]:
        """The nodes that are being emptied, by UID. Empty if the latest message is not valid any more.

        A message of the future is not used either: this clock was ahead when it was received.
        """
        latest = self._latest
        if latest is None or not latest.evaluated_at - CLOCK_TOLERANCE <= now <= latest.valid_until:
            return {}
        return self._by_uid
