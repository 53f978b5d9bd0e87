"""`plan.preview`: the moves that the descheduler would propose now."""

from typing import ClassVar

from equipoise.contracts.bounds import Count, Seconds, Time
from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.messages.descheduling import DryRunMove, LoadExtremes, NodeCooldown, NodeState, RefusedMove
from equipoise.contracts.messages.example import LEASE_EPOCH, NOW
from equipoise.contracts.messages.health import DRY_RUN
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.move import JustifiedMove, Move
from equipoise.contracts.messages.values.resources import Resources


class PlanRequest(Message, frozen=True, kw_only=True):
    """A request for a plan, on `plan.preview`. It proposes no evictions and changes nothing."""

    level: MovesLevel | None = None
    """Plans as if `moves.level` were this one. None: as configured."""

    campaign: Count = 0
    """Repeats the plan as if the moves before were done, until nothing more would move or this many pods have moved. 0:
    one evaluation."""


class PlannedMove(JustifiedMove, frozen=True, kw_only=True):
    """A pod that would move now if its node had been abnormal for long enough."""

    strategy: str
    sampled_at: Time
    later: bool = False
    """Whether the pod fits on its target only after other moves. It is proposed after them."""

    without_gap: bool = False
    """Whether the pod is evicted only when its replacement is ready (`surge.mode`). The binder still refuses it if a
    Service selects it by its template, or if a ResourceQuota has no room for its replacement."""

    preferred_without_scores: str = ""
    """The node that kube-scheduler prefers for the replacement by its own scores, without extender and hints.

    Empty if there is none, or if it is unknown.
    """


class PlannedBand(Value, frozen=True, kw_only=True):
    """The resources of a band on a node (cores, bytes): offered in its status, and requested by its pods."""

    offered: Resources
    requested: Resources


class PlannedNode(Value, frozen=True, kw_only=True):
    """A node that is abnormal, or the source or target of planned moves."""

    strategy: str
    node: str
    state: NodeState
    before: Resources
    """Load (0..1 of the base) over the first window of the strategy, with dry-run moves and without pending moves."""

    after: Resources
    """The load after the pending and the planned moves."""

    batch_work: Resources | None = None
    """The part of `before` that is caused by pods of low priority, which give way to others. None if there are no such
    pods."""

    bands: dict[OfferedBand, PlannedBand] = {}
    """The bands that the node offers."""

    abnormal_evaluations: Count = 0
    missing_evaluations: Count = 0
    """Abnormal evaluations that are still needed before a move is proposed; 0 for a normal node."""

    why: str = ""


class PlannedWave(Value, frozen=True, kw_only=True):
    """The moves of one evaluation of a campaign, which are the next ones in `PlanResponse.moves`."""

    moves: Count
    after: LoadExtremes
    """All nodes once these moves and those of the waves before are done."""


class PendingMove(Move, frozen=True, kw_only=True):
    """A move that is proposed and not settled, or whose pod is evicted and not replaced yet."""

    evicted_at: Time | None = None


class PlanResponse(Message, frozen=True, kw_only=True):
    """Response of the leading descheduler. Every list has at most 500 entries."""

    checked: ClassVar[bool] = True

    moves: list[PlannedMove] = []
    nodes: list[PlannedNode] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    """The reason why a strategy would move nothing, by strategy."""

    pending: list[PendingMove] = []
    dry_run_moves: list[DryRunMove] = []
    cooldowns: list[NodeCooldown] = []
    before: LoadExtremes | None = None
    """All nodes once the pending moves are done. None in messages of earlier versions."""

    after: LoadExtremes | None = None
    """All nodes once the planned moves are done, too."""

    waves: list[PlannedWave] = []
    """The evaluations of a campaign, in their order; empty if the request was for one evaluation."""

    unscheduled: Count | None = None
    """Pods without a node. None in messages of earlier versions."""

    evictions: str = ""
    """How binders carry out intents: `real`, `dry run`, or why they do not. Empty without a heartbeat of any binder."""

    considered: Count = 0
    """The number of nodes in the evaluation."""

    unknown: Count | None = None
    """The number of nodes of unknown load, which `before`, `after` and `waves` do not have. None in messages of earlier
    versions."""

    interval: Seconds = 0.0
    """Seconds between two evaluations."""

    leader: LeaseEpoch
    planned_at: Time
    shortened: str = ""
    """What was left out because the message would be too large for the bus; empty if nothing was."""


PLAN_REQUEST = PlanRequest()
PLAN_RESPONSE = PlanResponse(
    why={"low_node_load": "no node is hot"},
    evictions=DRY_RUN,
    considered=40,
    interval=120,
    leader=LEASE_EPOCH,
    planned_at=NOW,
)
