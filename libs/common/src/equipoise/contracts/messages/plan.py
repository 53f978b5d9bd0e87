"""`plan.preview`: what the descheduler would move now."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DryRunMove, NodeCooldown, NodeState, RefusedMove
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.resources import Resources


class PlanRequest(Message, frozen=True, kw_only=True):
    """Asked on `plan.preview`: what would move now? It proposes nothing and changes nothing."""


class PlannedMove(Value, frozen=True, kw_only=True):
    """A pod that would move now, were its node abnormal for long enough."""

    strategy: str
    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    reason: str
    expected_reduction: Resources
    """Cores and bytes."""

    sampled_at: float
    later: bool = False
    """It has no room yet: other moves make it, and it is proposed once it is there."""


class PlannedNode(Value, frozen=True, kw_only=True):
    """A node that is abnormal, or that planned moves leave or come to."""

    strategy: str
    node: str
    state: NodeState
    before: Resources
    """Load (0..1 of the base) over the strategy's first window, with assumed moves, without those under way."""

    after: Resources
    """Once the moves under way and the planned ones are done."""

    abnormal_evaluations: int = 0
    missing_evaluations: int = 0
    """Abnormal evaluations that are still needed until something is really proposed; 0 for a node that is well."""

    why: str = ""


class PendingMove(Value, frozen=True, kw_only=True):
    """Proposed and not settled yet, or evicted with no replacement seen."""

    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    evicted_at: float | None = None


class PlanResponse(Message, frozen=True, kw_only=True):
    """Answer to a plan question, by the leading descheduler. Every list holds at most 500."""

    moves: list[PlannedMove] = []
    nodes: list[PlannedNode] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    """By strategy that would move nothing: why not."""

    pending: list[PendingMove] = []
    dry_run_moves: list[DryRunMove] = []
    cooldowns: list[NodeCooldown] = []
    evictions: str = ""
    """What binders do with intents at present: `real`, `dry run`, or why nothing; empty when no binder was heard."""

    considered: int = 0
    """Nodes looked at."""

    interval: float = 0.0
    """Seconds between two evaluations."""

    leader: LeaseEpoch
    planned_at: float
