"""Limits how many replicas of one workload may be unavailable, whatever the cause."""

from collections.abc import Mapping

from equipoise.binder.decisions.limits.migrating_per_workload import MigratingPerWorkload
from equipoise.binder.decisions.limits.rule import ProposedEviction, ShareOrCount
from equipoise.binder.state.ledger import LedgerView


class UnavailablePerWorkload(MigratingPerWorkload, frozen=True, kw_only=True):
    """Replicas of one workload that are not ready, plus those that are migrating.

    A replica that is both counts twice. The workload's status may not show a migrating replica as lost yet, and only
    the sum is never too low.
    """

    counts = "unavailable replicas of {eviction.workload}"

    max: ShareOrCount | None = None
    """Default: 10%, but 2 of 4 to 10 replicas and 1 of fewer."""

    def count(self, eviction: ProposedEviction, view: LedgerView) -> int:
        return eviction.unready + super().count(eviction, view)

    def usage(self, view: LedgerView) -> Mapping[str, int]:
        return {}  # the ledger does not hold the status of workloads
