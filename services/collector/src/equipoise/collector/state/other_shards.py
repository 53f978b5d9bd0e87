"""The usage of the pods on nodes of other shards, as their collectors publish it.

The usage of a workload is the mean of its pods, which are on nodes of all shards. A shard whose collector publishes
nothing makes its pods unknown, as if they had not been measured.
"""

from collections.abc import Collection, Mapping

from equipoise.contracts.bounds import MAX_AHEAD, Count, Time
from equipoise.contracts.load.latest import supersedes_utilization
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.values.resources import Resources


class PublishedPods(Message, frozen=True, kw_only=True):
    """The part of the utilization of a node that OtherShards needs."""

    node: str
    uid: str
    sampled_at: Time
    queried_at: Time
    pods: Mapping[str, Resources] = {}
    epoch: Count
    sequence: Count

    @property
    def measured_at(self) -> float:
        return self.queried_at

    @property
    def implausible(self) -> str:
        ahead = self.sampled_at - self.queried_at
        return f"a sample is {ahead:g} s too new" if ahead > MAX_AHEAD else ""


class OtherShards:
    """The latest message of every node, of this replica's shards too: another replica may hold them next."""

    def __init__(self, max_age: float) -> None:
        """`max_age`: seconds after which usage is unknown."""
        self._max_age = max_age
        self._nodes: dict[str, PublishedPods] = {}

    def on_utilization(self, message: PublishedPods, now: float) -> bool:
        """Keeps the message. False if it is older than the one that is kept."""
        if not supersedes_utilization(message, self._nodes.get(message.node), now):
            return False
        self._nodes[message.node] = message
        return True

    def pods(self, node: str, uid: str, now: float) -> PublishedPods | None:
        """The pods of the node with this UID; None if they are unknown at `now`, on the source's clock."""
        message = self._nodes.get(node)
        if message is None or message.uid != uid:
            return None
        return message if now - min(message.sampled_at, message.queried_at) <= self._max_age else None

    def retain(self, nodes: Collection[str]) -> None:
        """Deletes all other nodes."""
        self._nodes = {name: message for name, message in self._nodes.items() if name in nodes}
