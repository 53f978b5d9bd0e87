"""`placement.emptying`: the nodes that consolidation is emptying."""

from equipoise.contracts.bounds import Time
from equipoise.contracts.kubernetes.nodes.consolidation_taint import emptying_text
from equipoise.contracts.messages.example import IDLE_NODE, NOW
from equipoise.contracts.messages.message import Message, Value

MAX_VALIDITY = 3_600.0
"""Seconds for which a message about nodes that are being emptied may be valid. A descheduler that ended, or whose clock
was ahead, must not keep pods away from nodes for longer."""


MAX_NODES = 100
"""The largest number of nodes that are being emptied at the same time."""


class NodeBeingEmptied(Value, frozen=True, kw_only=True):
    """A node whose pods are being moved to other nodes, so that an autoscaler removes it."""

    node: str
    uid: str
    """The UID of the node, because a new node may have the name of a deleted one."""

    since: Time
    """The time at which it was chosen."""

    why: str
    """Why it was chosen, as text for people."""

    @property
    def text(self) -> str:
        """What is shown of the node: since when it is being emptied, and why."""
        return f"{emptying_text(self.since)}: {self.why}"


class NodesBeingEmptied(Message, frozen=True, kw_only=True):
    """`placement.emptying`: all nodes that are being emptied.

    The leader of the deschedulers publishes it at every evaluation, with no nodes if none is being emptied. The latest
    message counts, until `valid_until`. Without a valid message, no node is being emptied.
    """

    evaluated_at: Time
    valid_until: Time
    """The end of its validity, at most an hour after `evaluated_at`."""

    nodes: list[NodeBeingEmptied] = []

    @property
    def measured_at(self) -> float:
        return self.evaluated_at

    @property
    def max_age(self) -> float:
        return max(self.valid_until - self.evaluated_at, 1.0)

    @property
    def implausible(self) -> str:
        validity = self.valid_until - self.evaluated_at
        if validity > MAX_VALIDITY:
            return f"it would be valid for {validity:.0f} s, and no message is for more than {MAX_VALIDITY:.0f} s"
        return f"{len(self.nodes)} nodes are too many" if len(self.nodes) > MAX_NODES else ""


NODES_BEING_EMPTIED = NodesBeingEmptied(
    evaluated_at=NOW,
    valid_until=NOW + 600,
    nodes=[NodeBeingEmptied(node=IDLE_NODE, uid="9d3e", since=NOW - 300, why="its 6 pods fit on 4 other nodes")],
)
