"""`decision.descheduler.>`: what each evaluation of the descheduler found, proposed and rejected."""

from collections.abc import Collection
from typing import ClassVar, Literal

from equipoise.contracts.bounds import Count, Time
from equipoise.contracts.messages.example import (
    HOT_NODE,
    IDLE_NODE,
    INTENT_ID,
    NOW,
    POD,
    POD_UID,
    REASON,
    USAGE,
    WORKLOAD,
)
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.values.move import EvictionMove, Move
from equipoise.contracts.messages.values.pressure import Pressure
from equipoise.contracts.messages.values.resources import Resources

NodeState = Literal["hot", "idle", "between", "sparse", "unknown"]

URGENCY: tuple[NodeState, ...] = ("hot", "sparse", "idle", "between", "unknown")
"""A node that several strategies classify has the first of their states."""


def most_urgent(states: Collection[NodeState]) -> NodeState | None:
    """The state of a node by all strategies: status, page, `top` and report count hot nodes by it. None without any."""
    return next((state for state in URGENCY if state in states), None)


class NodeClassification(Value, frozen=True, kw_only=True):
    """The class of one node in an evaluation."""

    node: str
    state: NodeState
    """The class. A node is sparse if its load is so low that bin_pack may empty it."""

    load: Resources
    """0..1 of the base."""

    abnormal_evaluations: Count = 0
    why: str = ""
    over: list[str] = []
    """The resources in which a hot node is above its threshold."""

    sampled_at: Time = 0.0
    """The oldest sample that was used; 0 without any."""

    pressure: Pressure | None = None
    """The share of time (0..1) in which its processes wait; None if it is unknown."""

    waits_for: list[str] = []
    """The resources for which its pods wait for others, by `thresholds.pressure`."""

    @property
    def abnormal(self) -> bool:
        """Whether pods are moved away from a node that stays in this state."""
        return self.state in ("hot", "sparse")


class RefusedMove(Value, frozen=True, kw_only=True):
    pod: str
    node: str
    why: str


class ProposedMove(EvictionMove, frozen=True, kw_only=True):
    """A proposed move. It has the fields of its intent, because the intent itself is removed earlier."""

    intent_id: str
    sampled_at: Time
    """The oldest sample that the decision is based on."""

    expires_at: Time


class DryRunMove(Move, frozen=True, kw_only=True):
    """A dry-run move. Until it expires, its pod counts on the target and is not proposed again."""

    since: Time
    until: Time


ReplacementResult = Literal["as_planned", "elsewhere", "returned"]
"""The node to which kube-scheduler bound a replacement: the move's target, another one, or that of the evicted pod."""


class ReplacementPlaced(Move, frozen=True, kw_only=True):
    """The replacement of an evicted pod was placed."""

    intent_id: str
    replacement: str
    placed_on: str
    hint: PlacedHint | None = None
    """The placement hint with which the replacement was created; None: unknown."""

    @property
    def result(self) -> ReplacementResult:
        if self.placed_on == self.node:
            return "returned"
        return "as_planned" if self.placed_on == self.target else "elsewhere"


class LoadReduction(Value, frozen=True, kw_only=True):
    """The change of a node's usage after evictions, measured when its shortest window excludes the evicted pods."""

    node: str
    intents: list[str]
    """The intents of these evictions."""

    over: list[str]
    """The resources that are compared."""

    before: Resources
    """The usage when the first of these evictions was proposed, in cores and bytes."""

    after: Resources
    expected: Resources
    """The sum of the expected reductions."""

    reduced: bool
    """Whether usage fell by at least half of the expected reduction."""


class NodeCooldown(Value, frozen=True, kw_only=True):
    """A node from which nothing is moved until the given time."""

    node: str
    until: Time
    why: str


class LoadExtremes(Value, frozen=True, kw_only=True):
    """How uneven the nodes are. Loads (0..1 of the base) over the shortest window; None if no load is known."""

    highest: Resources
    """The load of the most loaded node, by resource."""

    spread: Resources
    """The load of the most loaded node minus that of the least loaded one."""


class CampaignEffect(Value, frozen=True, kw_only=True):
    """What the moves of the last campaign do to the spread, all by the loads of this evaluation. Loads and plans of
    other times are not in it, so it does not change with the load of the whole cluster."""

    campaign: str = ""
    """The name of the campaign; empty if none of its replacements is placed yet."""

    moves: Count = 0
    """The moves whose replacement is measured. The others change none of these spreads."""

    without_moves: Resources = Resources()
    """The spread if none of these moves had been made."""

    as_planned: Resources = Resources()
    """The spread if each of their replacements were on the target of its move."""


class EvaluatedCluster(Value, frozen=True, kw_only=True):
    """What an evaluation found in the whole cluster. A campaign goes on or ends by it."""

    loads: LoadExtremes
    """All nodes once the pending moves are done."""

    nodes: Count
    unscheduled: Count
    """Pods without a node."""

    campaign: CampaignEffect | None = None
    """None in messages of earlier versions."""

    exhausted: bool = False
    """Whether no strategy proposed a move, no move is pending, and no node has yet to be abnormal for longer."""


class DescheduleDecision(Message, frozen=True, kw_only=True):
    """`decision.descheduler.<strategy>`: what one evaluation found, proposed and rejected."""

    checked: ClassVar[bool] = True

    strategy: str
    evaluated_at: Time
    nodes: list[NodeClassification]
    intents: list[str]
    """The ids of the proposed intents."""

    refused: list[RefusedMove] = []
    """The refused moves, at most 50."""

    why: str = ""
    """Why nothing was proposed; empty when something was."""

    moves: list[ProposedMove] = []
    """The moves of these intents."""

    dry_run_moves: list[DryRunMove] = []
    """Dry-run moves: the loads of `nodes` include them. At most 50, the newest."""

    replacements: list[ReplacementPlaced] = []
    """Replacements placed since the last evaluation. Only the first strategy publishes them."""

    load_reductions: list[LoadReduction] = []
    """Load reductions measured since the last evaluation. Only the first strategy publishes them."""

    cooldowns: list[NodeCooldown] = []
    """Nodes whose load did not fall after evictions."""

    cluster: EvaluatedCluster | None = None
    """The whole cluster. Only the first strategy publishes it."""

    shortened: str = ""
    """The parts that were left out to keep within the maximum size of a message; empty if none was."""


DESCHEDULE_DECISION = DescheduleDecision(
    strategy="low_node_load",
    evaluated_at=NOW,
    nodes=[
        NodeClassification(
            node=HOT_NODE,
            state="hot",
            load=Resources(cpu=0.91, memory=0.5625),
            abnormal_evaluations=5,
            over=["cpu"],
            sampled_at=NOW - 6,
        )
    ],
    intents=[INTENT_ID],
    moves=[
        ProposedMove(
            intent_id=INTENT_ID,
            namespace="shop",
            pod=POD,
            pod_uid=POD_UID,
            workload=WORKLOAD,
            node=HOT_NODE,
            target=IDLE_NODE,
            reason=REASON,
            expected_reduction=USAGE,
            sampled_at=NOW - 6,
            expires_at=NOW + 180,
        )
    ],
    cluster=EvaluatedCluster(
        loads=LoadExtremes(highest=Resources(cpu=0.91, memory=0.5625), spread=Resources(cpu=0.62, memory=0.25)),
        nodes=40,
        unscheduled=0,
        campaign=CampaignEffect(),
    ),
)
