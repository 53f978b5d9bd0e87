"""Stops all evictions while too many replacements are late, whatever the reason is."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.configuration.duration import Duration


class LateReplacements(CountingLimit, frozen=True, kw_only=True):
    """Limits how many replacements of evicted pods in the cluster take too long to be ready."""

    scope = "cluster"
    counts = "replacements that are not ready after {limit.after}"

    max: Count = 3
    """The number of late replacements at which evictions stop."""

    after: Duration = Duration(300)
    """A replacement is late after this time. After `limits.migrationTimeout` it is no longer waited for."""

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        # A dry run removes no replica, so none is late.
        return [entry for entry in view.migrating() if not entry.dry_run and view.now - entry.latest > self.after]
