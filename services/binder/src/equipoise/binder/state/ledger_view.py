"""What limits see of the ledger."""

import msgspec

from equipoise.binder.state.ledger_entry import Entry

CLOCK_TOLERANCE = 0.05
"""Seconds by which the clocks of several API servers may differ. Windows last this much longer."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What limits see of a ledger: the entries that count, at one moment."""

    now: float
    entries: tuple[Entry, ...]
    migration_timeout: float
    """Seconds after which a lost replica counts as given up, so that it holds nothing up any more."""

    halved: bool = False
    """Grace after a start or an outage: every limit is half of itself, rounded up."""

    usual: float = 0.0
    """Evictions per second, the mean of the last 24 hours."""

    def within(self, window: float) -> list[Entry]:
        """Entries whose eviction may have happened in the last `window` seconds."""
        return [entry for entry in self.entries if self.now - entry.latest < window + CLOCK_TOLERANCE]

    def in_migration(self) -> list[Entry]:
        """Entries whose workload may not have its replica back."""
        return [entry for entry in self.within(self.migration_timeout) if entry.recovered_at is None]

    def failing(self) -> list[Entry]:
        """Entries whose replacement cannot be created. Time alone does not end that: somebody has to see otherwise."""
        return [entry for entry in self.entries if entry.failing_since is not None and entry.recovered_at is None]

    def awaited(self) -> list[Entry]:
        """Real moves whose replacement is worth a look. What a dry run moved is still there."""
        due = {entry.intent_id: entry for entry in (*self.in_migration(), *self.failing())}
        return [entry for entry in due.values() if not entry.dry_run]

    def assuming_recovered(self) -> "View":
        """The view if every replica were back."""
        entries = tuple(msgspec.structs.replace(entry, recovered_at=self.now) for entry in self.entries)
        return msgspec.structs.replace(self, entries=entries)
