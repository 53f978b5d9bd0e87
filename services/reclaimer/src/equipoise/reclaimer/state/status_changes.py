"""Who changed the amounts in the status of a node: this reclaimer, a kubelet that started, or another program."""

import itertools
from collections.abc import Mapping

import msgspec

RECENT_WRITES = 5
"""The writes of a node that are kept: one of them may be published after a later one was made."""

MAX_FOREIGN_CHANGES = 3
"""The number of changes by another program at which the node is contested."""

QUIET_PERIOD = 3_600.0
"""Seconds without a change by another program after which a node is not contested any more."""


class StatusChanges(msgspec.Struct, kw_only=True):
    """The changes of one node. Amounts by resource name, in milli-cores and bytes; 0: absent."""

    requested: list[dict[str, int]] = []
    """The latest writes, oldest first, whether they succeeded or not: one that timed out may have."""

    lost: dict[str, int] = {}
    """What a kubelet removed or set to 0, as it does when it starts."""

    foreign: list[float] = []
    """Unix seconds of the latest changes by another program, at most MAX_FOREIGN_CHANGES."""

    def on_requested(self, amounts: Mapping[str, int | None]) -> None:
        latest = {name: amount or 0 for name, amount in amounts.items()}
        self.requested = [*self.requested[1 - RECENT_WRITES :], latest]

    def on_written(self) -> None:
        self.lost = {}

    def on_status(self, before: Mapping[str, int], after: Mapping[str, int], now: float) -> None:
        """A change that this reclaimer did not write. Without any write of it nothing is known of others."""
        changed = {name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0)}
        own = {name for name in changed if any(each.get(name) == after.get(name, 0) for each in self.requested)}
        for name in changed:
            if after.get(name, 0) or name in own:
                self.lost.pop(name, None)
            else:
                self.lost[name] = before[name]
        if self.requested and any(after.get(name, 0) for name in changed - own):
            self.foreign = [*self.foreign[1 - MAX_FOREIGN_CHANGES :], now]

    def is_contested(self, now: float) -> bool:
        """MAX_FOREIGN_CHANGES, none of them QUIET_PERIOD after the one before, and the last one less long ago."""
        times = [*self.foreign, now]
        # A change of the future was seen while this clock was ahead.
        quiet = any(abs(later - earlier) >= QUIET_PERIOD for earlier, later in itertools.pairwise(times))
        return len(self.foreign) == MAX_FOREIGN_CHANGES and not quiet
