"""The scorers that run, by their heartbeats. One of them publishes the hints of each namespace."""

from equipoise.contracts.hashing import owner
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME, Heartbeat


class ScorerReplicas:
    """This replica and the other ready replicas. Times are those of this replica's monotonic clock."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._seen_at: dict[str, float] = {}

    def on_heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """Adds a ready replica, and removes one that is not ready, because it does not publish."""
        if heartbeat.ready:
            self._seen_at[heartbeat.id] = now
        else:
            self._seen_at.pop(heartbeat.id, None)

    def owns(self, namespace: str, now: float) -> bool:
        """Whether this replica publishes the hints of the namespace."""
        self._seen_at = {
            name: seen_at for name, seen_at in self._seen_at.items() if now - seen_at <= HEARTBEAT_LIFETIME
        }
        return owner(namespace, {self._identity, *self._seen_at}) == self._identity
