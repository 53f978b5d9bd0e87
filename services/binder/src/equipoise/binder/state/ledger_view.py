"""The part of the ledger that limits read."""

import msgspec

from equipoise.binder.state.ledger_entry import LedgerEntry

CLOCK_TOLERANCE = 0.05
"""Seconds by which the clocks of several API servers may differ. Windows are longer by this."""


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one kind (real or dry run) that count, at one time."""

    now: float
    entries: tuple[LedgerEntry, ...]
    migration_timeout: float
    """Seconds after which a missing replica is no longer waited for."""

    halved: bool = False
    """Grace period after a start or an outage: every limit is half of itself, rounded up."""

    mean_rate: float = 0.0
    """Evictions per second, the mean of the last 24 hours."""

    def within(self, window: float) -> list[LedgerEntry]:
        """Entries whose eviction may have happened in the last `window` seconds."""
        return [entry for entry in self.entries if self.now - entry.latest < window + CLOCK_TOLERANCE]

    def migrating(self) -> list[LedgerEntry]:
        """Entries whose workload may miss a replica."""
        return [entry for entry in self.within(self.migration_timeout) if entry.recovered_at is None]

    def failing(self) -> list[LedgerEntry]:
        """Entries whose replacement cannot be created. They never expire: only an observation ends them."""
        return [entry for entry in self.entries if entry.failing_since is not None and entry.recovered_at is None]

    def pending_replacements(self) -> list[LedgerEntry]:
        """Evictions whose replacements are not known to be ready; dry runs have none."""
        pending = {entry.intent_id: entry for entry in (*self.migrating(), *self.failing())}
        return [entry for entry in pending.values() if not entry.dry_run]

    def with_all_recovered(self) -> "LedgerView":
        """The view if every replica were ready again."""
        entries = tuple(msgspec.structs.replace(entry, recovered_at=self.now) for entry in self.entries)
        return msgspec.structs.replace(self, entries=entries)
