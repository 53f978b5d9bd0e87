"""The limits of evictions. Each one is a file of this folder and a field of `Limits`, which is the table.

A limit is a pure rule over the ledger; its fields are its settings. Every limit must agree, so the strictest one wins.
An absent setting means the default, "unlimited" no limit, and 0 that no pod may be evicted.
"""

from collections.abc import Mapping

from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.evictions_per_namespace import EvictionsPerNamespace
from equipoise.binder.decisions.limits.evictions_per_workload import EvictionsPerWorkload
from equipoise.binder.decisions.limits.failing_replacements import FailingReplacements
from equipoise.binder.decisions.limits.late_replacements import LateReplacements
from equipoise.binder.decisions.limits.maintenance import Maintenance
from equipoise.binder.decisions.limits.migrating_per_node import MigratingPerNode
from equipoise.binder.decisions.limits.migrating_per_workload import MigratingPerWorkload
from equipoise.binder.decisions.limits.preemptions import Preemptions
from equipoise.binder.decisions.limits.rate import EvictionRate
from equipoise.binder.decisions.limits.rule import Limit, ProposedEviction
from equipoise.binder.decisions.limits.unavailable_per_workload import UnavailablePerWorkload
from equipoise.binder.decisions.limits.unusual_rate import UnusualRate
from equipoise.binder.decisions.result import Finish
from equipoise.binder.state.ledger import LedgerView
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.eviction import Outcome


class Limits(Section, frozen=True, kw_only=True):
    """Every limit. 0 means that no pod may be evicted, "unlimited" that the limit does not exist."""

    # The order of evaluation: limits that do not depend on replacements come first, to save reads.
    maintenance: Maintenance = Maintenance()
    evictions_per_workload: EvictionsPerWorkload = EvictionsPerWorkload()
    evictions_per_namespace: EvictionsPerNamespace = EvictionsPerNamespace()
    evictions_per_cluster: EvictionsPerCluster = EvictionsPerCluster()
    unusual_rate: UnusualRate = UnusualRate()
    preemptions: Preemptions = Preemptions()
    migrating_per_node: MigratingPerNode = MigratingPerNode()
    migrating_per_workload: MigratingPerWorkload = MigratingPerWorkload()
    unavailable_per_workload: UnavailablePerWorkload = UnavailablePerWorkload()
    late_replacements: LateReplacements = LateReplacements()
    failing_replacements: FailingReplacements = FailingReplacements()
    rate: EvictionRate = EvictionRate()

    migration_timeout: Duration = Duration(600)
    """A pod migrates until it has left and its workload is complete again, or for this long.

    Complete: with the replicas that it had when the pod was evicted, or that it should have now if these are fewer.
    """

    replacement_settling_period: Duration = Duration(10)
    """The time after an eviction in which the workload's ready count is not used, because its status is late.

    It is six times as long while the evicted pod of a ReplicaSet still terminates.
    """

    startup_grace_period: Duration = Duration(3_600)
    """The time after setup, `equipoise resume` or an outage for which every limit is half of itself, rounded up."""

    outage_threshold: Duration = Duration(60)
    """API server, ledger or bus unavailable for longer than this is an outage; it starts the grace period again."""

    @property
    def table(self) -> Mapping[str, Limit]:
        """All limits by their name in the configuration, in the order of evaluation."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        limits = ((name, getattr(self, field)) for field, name in names)
        return {name: limit for name, limit in limits if isinstance(limit, Limit)}

    @property
    def retention(self) -> float:
        """Seconds for which the ledger must keep an eviction."""
        return float(max(self.migration_timeout, *(limit.retention for limit in self.table.values())))

    def refusal(self, eviction: ProposedEviction, view: LedgerView) -> Finish | None:
        """The first refusal; None when all limits agree. `rate`, which only delays, is left out."""
        for name, limit in self.table.items():
            if limit.holds(eviction, view) and not limit.delays and (why := limit.refusal(eviction, view)):
                return Finish(
                    outcome=Outcome.REJECTED_LIMIT,
                    detail=f"{why} (limits.{name})",
                    limit=name,
                    limit_scope=limit.scope,
                    retry_at=limit.retry_at(eviction, view),
                )
        return None
