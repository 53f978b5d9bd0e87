"""The descheduler's settings: when it evaluates and what it may propose. Thresholds and protection are shared."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.settings import LeaderElection, LoadSettings, Placement, Section, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.eviction.protection import REPLACING_KINDS
from equipoise.contracts.messages.message import converted
from equipoise.descheduler.decisions.cluster import IntentLimits
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings
from equipoise.descheduler.decisions.strategies import AnyStrategy, name_of
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cooldowns import CooldownSettings
from equipoise.descheduler.state.moves.tracker import TrackerSettings

Count = Annotated[int, Meta(ge=1)]

EXTENDER_WEIGHT = 5
"""The weight in k8s/scheduler/extender.yaml."""

POINTS_PER_EXTENDER_WEIGHT = 50
"""The points by which the target of a replacement exceeds other nodes: the scorer gives the others at most half of its
score.

kube-scheduler scales the scores of an extender to 100 points, and multiplies them by its weight."""

HINT_POINTS = 180
"""The score of NodeAffinity, which is 100 points with weight 2, minus the points that the hint gives to other nodes."""

WATCHABLE_WORKLOADS = frozenset(kind for _, kind in REPLACING_KINDS)
"""Kinds of workloads whose replicas can be counted."""


class DeschedulerSettings(Section, frozen=True, kw_only=True):
    """The section `descheduler`."""

    health: str = "0.0.0.0:8084"
    """Address of /healthz, /readyz, /metrics and /version."""

    leader_election: LeaderElection = LeaderElection()

    interval: Duration = Duration(120)
    """Time between evaluations."""

    consecutive_abnormalities: Count = 5
    """Consecutive evaluations, each with a newer sample, in which a node must be hot before a pod is moved off it.

    The count restarts when the last abnormal evaluation is older than 5 minutes and than 2.5 intervals.
    """

    warm_up: Duration = Duration(120)
    """Time between becoming the leader and the first evaluation, to receive the outcomes of earlier intents."""

    intent_lifetime: Duration = Duration(180)
    """Lifetime of an intent. Must not exceed the lifetime of messages in the stream of intents."""

    replacement_timeout: Duration = Duration(600)
    """How long the replacement of an evicted pod is expected at its target, unless it is placed elsewhere before."""

    dry_run_move_lifetime: Duration = Duration(86_400)
    """How long a dry-run move counts as done. After this time, the pod may be proposed again."""

    require_pressure: bool = False
    """true: a node above its load threshold without pressure is reported, and no pod is moved away from it, because
    nobody waits there. It concerns the resources (cpu, memory) with a threshold in `thresholds.pressure`, on nodes of
    known pressure. Give memory none: a node without free memory ends pods, often before one has waited."""

    max_intents_per_evaluation: Count = 4
    """Includes pending moves. In a large cluster, the binder's limits allow as many evictions in one interval."""

    max_intents_per_node: Count = 2
    """Includes pending moves."""

    max_intents_per_workload: Count = 1
    """Includes pending moves."""

    target_points: Annotated[int, Meta(ge=0)] | None = None
    """Points that Equipoise's scores give the target of a move in addition to what they give other nodes.

    null: as `placement` has it, 250 with the extender (50 times its weight of 5), 180 with placement hints only, 0
    without scores. A move is planned only if the replacement would run on its target, by these points and the scores of
    kube-scheduler's default plugins.
    """

    workloads: tuple[str, ...] = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
    """Kinds that are watched; pods of others are not moved. CloneSet and Rollout need their CRD and read access."""

    cooldown: CooldownSettings = CooldownSettings()

    strategies: tuple[AnyStrategy, ...] | None = None
    """The strategies plan in this order, and each takes the moves of the earlier ones as done.

    low_node_load relieves nodes that are hot now. level_day also moves pods between nodes that are not hot, so that
    the nodes have the same load in every hour of the day. bin_pack empties nodes that are used little.

    null: low_node_load, and with `moves.level` levelDay also level_day.
    """

    consolidation: Consolidation = Consolidation()

    def __post_init__(self) -> None:
        if self.strategies is not None and not self.strategies:
            raise ValueError("strategies must name at least one (example: low_node_load)")
        unknown = [kind for kind in self.workloads if kind not in WATCHABLE_WORKLOADS]
        if unknown:
            raise ValueError(
                f"workloads: {unknown[0]!r} cannot be watched, only {', '.join(sorted(WATCHABLE_WORKLOADS))}"
            )
        if min(self.interval, self.intent_lifetime, self.replacement_timeout) <= 0:
            raise ValueError("interval, intentLifetime and replacementTimeout must be longer than 0s")
        listed = self.strategies or ()
        if len({name_of(strategy) for strategy in listed}) < len(listed):
            raise ValueError("strategies must not name one twice")

    def chosen_strategies(self, level: MovesLevel | None) -> tuple[AnyStrategy, ...]:
        """The strategies that plan at this `moves.level`, whether it permits their moves or not."""
        if self.strategies is not None:
            return self.strategies
        return (LowNodeLoad(), LevelDay()) if level == "levelDay" else (LowNodeLoad(),)

    def points(self, placement: Placement) -> int:
        """The target points that apply."""
        if self.target_points is not None:
            return self.target_points
        if placement.extender:
            return EXTENDER_WEIGHT * POINTS_PER_EXTENDER_WEIGHT
        return HINT_POINTS if placement.hints else 0

    def evaluation(
        self, load: LoadSettings, thresholds: Thresholds, rules: Rules, placement: Placement | None = None
    ) -> EvaluationSettings:
        """The settings of an evaluation, with the shared ones."""
        limits = IntentLimits(
            per_evaluation=self.max_intents_per_evaluation,
            per_node=self.max_intents_per_node,
            per_workload=self.max_intents_per_workload,
        )
        return converted(
            self, EvaluationSettings, load=load, thresholds=thresholds, rules=rules, limits=limits,
            target_points=self.points(placement or Placement()), strategies=self.chosen_strategies(rules.level),
        )  # fmt: skip

    @property
    def tracker(self) -> TrackerSettings:
        """How long moves, counts and cooldowns are kept."""
        return converted(self, TrackerSettings)
