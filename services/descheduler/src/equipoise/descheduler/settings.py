"""What the descheduler is told: when to look, what to propose. Thresholds and protection are shared."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.eviction.protection import MOVED_KINDS
from equipoise.descheduler.decisions.strategies import AnyStrategy, name_of
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cluster import IntentLimits
from equipoise.descheduler.state.cool_downs import CoolDown
from equipoise.descheduler.state.tracker import TrackerSettings

Count = Annotated[int, Meta(ge=1)]

WATCHABLE_WORKLOADS = frozenset(kind for _, kind in MOVED_KINDS)
"""Kinds of workloads whose replicas can be counted."""


class LeaderElection(Section, frozen=True, kw_only=True):
    """One descheduler proposes at a time; the others keep their picture warm. Seconds, as for every Lease."""

    lease_duration: Annotated[float, Meta(gt=0)] = 15.0
    renew_deadline: Annotated[float, Meta(gt=0)] = 10.0
    retry_period: Annotated[float, Meta(gt=0)] = 2.0

    def __post_init__(self) -> None:
        if not 1.2 * self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError("1.2 × retryPeriod must be less than renewDeadline, and that less than leaseDuration")


class DeschedulerSettings(Section, frozen=True, kw_only=True):
    """The descheduler's own section."""

    health: str = "0.0.0.0:8084"
    """Where /healthz, /readyz, /metrics and /version answer."""

    leader_election: LeaderElection = LeaderElection()

    interval: Duration = Duration(120)
    """Between evaluations."""

    consecutive_abnormalities: Count = 5
    """Evaluations in a row that must find a node over its mark, each on a newer sample, before a pod may leave it.

    The count starts anew when the node was last found so 5 minutes ago, and 2.5 intervals ago.
    """

    warm_up: Duration = Duration(120)
    """After taking the lead, time before the first evaluation, in which what was under way is learnt."""

    intent_life: Duration = Duration(180)
    """An intent not carried out by then is void. Must not exceed the life of the stream that keeps intents."""

    replacement_patience: Duration = Duration(600)
    """So long an evicted pod's replacement is expected at its target, if it is seen nowhere before."""

    assumption_life: Duration = Duration(86_400)
    """A move that was a dry run counts as done for so long, if its pod stays; then the pod may be proposed again."""

    max_intents_per_evaluation: Count = 4
    """With those under way. As many as the binder's limits let a big cluster have in one interval."""

    max_intents_per_node: Count = 2
    """With those under way."""

    max_intents_per_workload: Count = 1
    """With those under way."""

    workloads: tuple[str, ...] = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
    """Kinds that are watched; pods of any other stay. CloneSet and Rollout need their CRD and the right to read it."""

    cool_down: CoolDown = CoolDown()

    strategies: tuple[AnyStrategy, ...] = (LowNodeLoad(), LevelDay())
    """Asked in this order; a pod is proposed by the first that wants it."""

    def __post_init__(self) -> None:
        if not self.strategies:
            raise ValueError("strategies must name at least one (example: low_node_load)")
        unknown = [kind for kind in self.workloads if kind not in WATCHABLE_WORKLOADS]
        if unknown:
            raise ValueError(
                f"workloads: {unknown[0]!r} cannot be watched, only {', '.join(sorted(WATCHABLE_WORKLOADS))}"
            )
        if min(self.interval, self.intent_life, self.replacement_patience) <= 0:
            raise ValueError("interval, intentLife and replacementPatience must be longer than 0s")
        names = {name_of(strategy) for strategy in self.strategies}
        if len(names) < len(self.strategies):
            raise ValueError("strategies must not name one twice")

    @property
    def intent_limits(self) -> IntentLimits:
        """How much may be proposed at once."""
        return IntentLimits(
            per_evaluation=self.max_intents_per_evaluation,
            per_node=self.max_intents_per_node,
            per_workload=self.max_intents_per_workload,
        )

    @property
    def tracker(self) -> TrackerSettings:
        """How long moves, counts and cool-downs are kept."""
        return TrackerSettings(
            interval=self.interval,
            consecutive_abnormalities=self.consecutive_abnormalities,
            intent_life=self.intent_life,
            replacement_patience=self.replacement_patience,
            assumption_life=self.assumption_life,
            cool_down=self.cool_down,
        )
