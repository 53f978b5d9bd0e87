"""Limits dispose: each looks at the ledger and says whether one more pod may move.

A limit is a pure rule in a file of its own, its fields are its settings, and it is a field and a line of `Limits`.
Every limit that is in force must agree, so the strictest wins. Absent is the default, "unlimited" no limit, 0 nothing.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.limits.evictions_per_namespace import EvictionsPerNamespace
from equipoise.binder.decisions.limits.evictions_per_workload import EvictionsPerWorkload
from equipoise.binder.decisions.limits.failing_replacements import FailingReplacements
from equipoise.binder.decisions.limits.in_migration_per_node import InMigrationPerNode
from equipoise.binder.decisions.limits.in_migration_per_workload import InMigrationPerWorkload
from equipoise.binder.decisions.limits.late_replacements import LateReplacements
from equipoise.binder.decisions.limits.maintenance import Maintenance
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.pace import Pace
from equipoise.binder.decisions.limits.preemptions import Preemptions
from equipoise.binder.decisions.limits.unavailable_per_workload import UnavailablePerWorkload
from equipoise.binder.decisions.limits.unusual_rate import UnusualRate
from equipoise.binder.state.ledger import CLOCK_TOLERANCE, View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

__all__ = [
    "EvictionsPerCluster",
    "EvictionsPerNamespace",
    "EvictionsPerWorkload",
    "FailingReplacements",
    "InMigrationPerNode",
    "InMigrationPerWorkload",
    "LateReplacements",
    "Limit",
    "Limits",
    "Maintenance",
    "Move",
    "Pace",
    "Preemptions",
    "Refusal",
    "UnavailablePerWorkload",
    "UnusualRate",
]


class Limit(Protocol):
    """One rule. Adding an entry that counts never turns its refusal into consent."""

    @property
    def memory(self) -> float:
        """Seconds for which it needs the ledger to remember evictions, beyond those in migration."""
        ...

    def refusal(self, move: Move, view: View) -> str:
        """ "" when one more may move, else why not, as people read it."""
        ...


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Which limit says no, and why as people read it."""

    limit: str
    why: str
    room_at: float | None
    """When it may agree, as far as time alone decides."""


class Limits(Section, frozen=True, kw_only=True):
    """Every limit. 0 means that nothing may move, "unlimited" that the limit does not exist."""

    in_migration_per_node: InMigrationPerNode = InMigrationPerNode()
    in_migration_per_workload: InMigrationPerWorkload = InMigrationPerWorkload()
    unavailable_per_workload: UnavailablePerWorkload = UnavailablePerWorkload()
    evictions_per_workload: EvictionsPerWorkload = EvictionsPerWorkload()
    evictions_per_namespace: EvictionsPerNamespace = EvictionsPerNamespace()
    evictions_per_cluster: EvictionsPerCluster = EvictionsPerCluster()
    late_replacements: LateReplacements = LateReplacements()
    failing_replacements: FailingReplacements = FailingReplacements()
    unusual_rate: UnusualRate = UnusualRate()
    preemptions: Preemptions = Preemptions()
    maintenance: Maintenance = Maintenance()
    pace: Pace = Pace()

    migration_timeout: Duration = Duration(600)
    """A pod is in migration until it is gone and its workload has its ready replicas back, or for this long."""

    replacement_settling: Duration = Duration(10)
    """A workload's ready count is not trusted earlier after an eviction: its status lags behind."""

    start_up_grace: Duration = Duration(3_600)
    """For this long after setup, `equipoise resume` or an outage every limit is half of itself, rounded up."""

    outage: Duration = Duration(60)
    """API server, ledger or bus away for longer than this is an outage, and whatever stood on them begins anew."""

    @property
    def table(self) -> Mapping[str, Limit]:
        """All limits by their name in the configuration, in the order in which they are asked.

        Those that only time ends come first, so that what is under way is looked at only when it decides.
        """
        return {
            "maintenance": self.maintenance,
            "evictionsPerWorkload": self.evictions_per_workload,
            "evictionsPerNamespace": self.evictions_per_namespace,
            "evictionsPerCluster": self.evictions_per_cluster,
            "unusualRate": self.unusual_rate,
            "preemptions": self.preemptions,
            "inMigrationPerNode": self.in_migration_per_node,
            "inMigrationPerWorkload": self.in_migration_per_workload,
            "unavailablePerWorkload": self.unavailable_per_workload,
            "lateReplacements": self.late_replacements,
            "failingReplacements": self.failing_replacements,
            "pace": self.pace,
        }

    @property
    def memory(self) -> float:
        """Seconds for which the ledger must remember an eviction."""
        return max(self.migration_timeout, *(limit.memory for limit in self.table.values()))

    def refusal(self, move: Move, view: View) -> Refusal | None:
        """The first limit's refusal; None when all agree. The pace is left out: it makes wait."""
        for name, limit in self.table.items():
            if name != "pace" and (why := limit.refusal(move, view)):
                return Refusal(limit=name, why=f"{why} (limits.{name})", room_at=_room_at(limit, move, view))
        return None


def _room_at(limit: Limit, move: Move, view: View) -> float | None:
    """The first moment at which the limit would agree if nothing else happened; None when time alone does not help."""
    if isinstance(limit, Maintenance):
        return limit.opens_at(view.now)
    if not limit.memory:
        return None
    # A millisecond more: times are floats, and a window ends after its last moment.
    moments = sorted(entry.latest + limit.memory + CLOCK_TOLERANCE + 0.001 for entry in view.entries)
    later = (msgspec.structs.replace(view, now=moment) for moment in moments if moment > view.now)
    return next((view.now for view in later if not limit.refusal(move, view)), None)
