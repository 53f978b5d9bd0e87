"""`decision.descheduler.>`: what the descheduler saw, proposed and left alone."""

from typing import Literal

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.resources import Resources

NodeState = Literal["hot", "idle", "between", "sparse", "unknown"]


class NodeClassification(Value, frozen=True, kw_only=True):
    """What an evaluation said of one node."""

    node: str
    state: NodeState
    """sparse: with so little on it that it may be emptied."""

    load: Resources
    """0..1 of the base."""

    abnormal_evaluations: int = 0
    why: str = ""
    over: list[str] = []
    """The resources in which a hot node is over its mark."""

    sampled_at: float = 0.0
    """The oldest sample that was looked at; 0 where none was."""

    @property
    def abnormal(self) -> bool:
        """Does it count towards a move away from the node?"""
        return self.state in ("hot", "sparse")


class RefusedMove(Value, frozen=True, kw_only=True):
    pod: str
    node: str
    why: str


class ProposedMove(Value, frozen=True, kw_only=True):
    """A move as it was decided: what an intent says of it, kept when the intent itself is done."""

    intent_id: str
    namespace: str
    pod: str
    pod_uid: str
    workload: Workload | None = None
    node: str
    target: str
    reason: str
    expected_reduction: Resources
    sampled_at: float
    """Oldest sample the decision stands on."""

    expires_at: float


class DryRunMove(Value, frozen=True, kw_only=True):
    """A move that was a dry run: its pod counts on the target, and is proposed no more, until then."""

    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    since: float
    until: float


class ReplacementPlaced(Value, frozen=True, kw_only=True):
    """Where the replacement of an evicted pod was seen."""

    intent_id: str
    namespace: str
    pod: str
    """The one that was evicted."""

    node: str
    """Which it had left."""

    target: str
    """Where its replacement was expected."""

    replacement: str
    placed_on: str


class LoadReduction(Value, frozen=True, kw_only=True):
    """What the load of a node did after evictions from it, once its shortest window shows nothing of their pods."""

    node: str
    intents: list[str]
    """Those whose evictions it tells of."""

    over: list[str]
    """The resources that are judged."""

    before: Resources
    """Usage when the first of them was proposed, cores and bytes."""

    after: Resources
    expected: Resources
    """What all of them together should have taken away."""

    reduced: bool
    """By at least half of what was expected."""


class NodeCooldown(Value, frozen=True, kw_only=True):
    """A node that nothing is moved away from until then, and why."""

    node: str
    until: float
    why: str


class DescheduleDecision(Message, frozen=True, kw_only=True):
    """`decision.descheduler.<strategy>`: what one evaluation saw, proposed and left alone."""

    strategy: str
    evaluated_at: float
    nodes: list[NodeClassification]
    intents: list[str]
    """Their ids."""

    refused: list[RefusedMove] = []
    """At most 50."""

    why: str = ""
    """Why nothing was proposed; empty when something was."""

    moves: list[ProposedMove] = []
    """What the intents asked for."""

    dry_run_moves: list[DryRunMove] = []
    """Moves assumed in dry run: the loads of `nodes` are with them. At most 50, the newest."""

    replacements: list[ReplacementPlaced] = []
    """Replacements seen since the last evaluation. As `load_reductions`, published by the first strategy only."""

    load_reductions: list[LoadReduction] = []
    cooldowns: list[NodeCooldown] = []
    """Nodes that did not get better and are left alone."""
