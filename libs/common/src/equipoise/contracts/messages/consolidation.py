"""`placement.emptying`: the nodes that consolidation is emptying. `plan.consolidation`: those that could be emptied."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from equipoise.contracts.bounds import Amount, Count, Points, Seconds, Time
from equipoise.contracts.kubernetes.nodes.consolidation_taint import emptying_text
from equipoise.contracts.messages.example import HOT_NODE, IDLE_NODE, LEASE_EPOCH, NOW
from equipoise.contracts.messages.health import DRY_RUN
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.values.lease import LeaseEpoch

MIN_VALIDITY = 60.0
"""Seconds for which a message of nodes that are being emptied is valid at least, however short the interval between
evaluations is: an evaluation may take longer, and the taint would be removed meanwhile."""

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

Price = Annotated[float, Meta(ge=0, le=1e6)]
"""A price per hour."""

Hour = Annotated[int, Meta(ge=0, le=23)]

Bound = Literal["requests", "load", "constraints", "pods", ""]
"""What prevents that a node is emptied: no node has the requested amounts free, or would stay below the threshold in
every hour, or is allowed by the constraints of a pod; or its pods stay. Empty: the node itself stays."""


Currency = Annotated[str, Meta(pattern="^([A-Z]{3})?$")]
"""A code of ISO 4217; empty without prices."""


class PricedNodes(Value, frozen=True, kw_only=True):
    """The price of nodes with these labels."""

    labels: dict[str, str]
    per_hour: Price


class ConsolidationRequest(Message, frozen=True, kw_only=True):
    """A request for the nodes that the cluster can do without, on `plan.consolidation`. It changes nothing."""

    prices: list[PricedNodes] | None = None
    """The first entry whose labels a node has is its price. None: `descheduler.consolidation.prices`."""

    currency: Currency = ""
    """The currency of `prices`."""

    @property
    def implausible(self) -> str:
        if self.prices and not self.currency:
            return "prices have no currency"
        return "a price has no labels" if any(not price.labels for price in self.prices or ()) else ""


class EmptiableNode(Value, frozen=True, kw_only=True):
    """A node that can be emptied whole, after those before it in the list."""

    node: str
    instance_type: str = ""
    pods: Count
    """Pods that must move. Pods of DaemonSets and static pods end with their node."""

    without_gap: Count = 0
    """How many of them are evicted only when their replacement is ready."""

    targets: Count = 0
    """The number of nodes to which they move."""

    below: Points | None = None
    """Points between the highest expected load of a target and its threshold, in the worst hour, errors of profiles
    included. None without pods."""

    price: Price | None = None
    being_emptied: bool = False


class StayingNode(Value, frozen=True, kw_only=True):
    """A node that cannot be emptied."""

    node: str
    why: str
    bound: Bound = ""


class NodeHour(Value, frozen=True, kw_only=True):
    """The highest forecast load of any node in any hour of the day."""

    node: str
    resource: str
    hour: Hour
    """UTC"""

    load: Points
    """0..1 of the base."""


class RequestsForMore(Value, frozen=True, kw_only=True):
    """What pods may request so that more nodes could go: an estimate, with the remaining nodes as full as now."""

    resource: str
    requested: Amount
    """Cores or bytes that the pods of the remaining nodes request."""

    needed: Amount
    """What they may request at most."""


class ConsolidationResponse(Message, frozen=True, kw_only=True):
    """The nodes that the cluster can do without. Every list has at most 500 entries; the numbers count all."""

    checked: ClassVar[bool] = True

    mode: str
    """`descheduler.consolidation.mode`."""

    nodes: list[EmptiableNode] = []
    """The nodes that could go, in the order in which they are emptied: the most saved per moved pod first."""

    emptiable: Count = 0
    pods: Count = 0
    """Pods that must move, of all these nodes."""

    per_hour: Amount | None = None
    """What these nodes cost together; None if the price of none is known."""

    currency: Currency = ""
    unpriced: Count = 0
    """How many of these nodes have no price."""

    cluster_per_hour: Amount | None = None
    """What all nodes of the cluster cost together; None if the price of none is known."""

    cluster_unpriced: Count = 0
    """How many nodes of the cluster have no price."""

    staying: list[StayingNode] = []
    hottest_before: NodeHour | None = None
    """The hottest hour of all nodes whose day is measured; None if there is none."""

    hottest_after: NodeHour | None = None
    """The hottest hour of the nodes that remain."""

    above: list[StayingNode] = []
    """Nodes above a threshold in some hour without any change. No node is emptied while there are any."""

    bound: Bound = ""
    """What keeps most of the other nodes."""

    more: Count = 0
    """The number of further nodes for which `requests` is the answer."""

    requests: list[RequestsForMore] = []
    margin: Points = 0.0
    """Points that targets stay below thresholds, errors of profiles not included."""

    unrecorded: Count = 0
    """The number of workloads whose profiles have no recorded error yet: a quarter of their mean counts instead."""

    emptying: list[NodeBeingEmptied] = []
    """The nodes that are being emptied now."""

    why: str = ""
    """Why no node is being emptied, or none besides those; empty if a further one would be."""

    evictions: str = ""
    """How binders carry out intents; see `PlanResponse`."""

    considered: Count = 0
    """The number of nodes of the cluster."""

    interval: Seconds = 0.0
    leader: LeaseEpoch
    planned_at: Time
    shortened: str = ""
    """What was left out because the message would be too large for the bus; empty if nothing was."""


CONSOLIDATION_REQUEST = ConsolidationRequest(
    prices=[PricedNodes(labels={"node.kubernetes.io/instance-type": "m7i.large"}, per_hour=0.12)],
    currency="EUR",
)
CONSOLIDATION_RESPONSE = ConsolidationResponse(
    mode="observe",
    nodes=[EmptiableNode(node=IDLE_NODE, instance_type="m7i.large", pods=6, targets=4, below=7.5, price=0.12)],
    emptiable=1,
    pods=6,
    per_hour=0.12,
    currency="EUR",
    cluster_per_hour=0.24,
    staying=[StayingNode(node=HOT_NODE, why="shop/db-0 stays: it has a persistent volume", bound="pods")],
    hottest_before=NodeHour(node=HOT_NODE, resource="cpu", hour=14, load=0.52),
    hottest_after=NodeHour(node=HOT_NODE, resource="cpu", hour=14, load=0.575),
    bound="pods",
    margin=5.0,
    why="consolidation.mode is observe",
    evictions=DRY_RUN,
    considered=2,
    interval=120,
    leader=LEASE_EPOCH,
    planned_at=NOW,
)
