"""Finds who changed the amounts in the status of a node: this reclaimer, a started kubelet, or another program."""

import itertools
from collections.abc import Mapping

import msgspec

RECENT_WRITES = 5
"""The number of kept writes of a node. A write may be published only after the next one was already made."""

MAX_FOREIGN_CHANGES = 3
"""The number of changes by another program at which the node is contested."""

QUIET_PERIOD = 3_600.0
"""Seconds without a change by another program after which a node is no longer contested."""


class StatusChanges(msgspec.Struct, kw_only=True):
    """The changes of one node. Amounts are by resource name, in milli-cores and bytes; 0 means absent."""

    requested: list[dict[str, int]] = []
    """The latest writes, oldest first. Failed writes are included, because one that timed out may have succeeded."""

    lost: dict[str, int] = {}
    """The amounts that a kubelet removed or set to 0, as it does when it starts."""

    foreign: list[float] = []
    """Unix seconds of the latest changes by another program, at most MAX_FOREIGN_CHANGES."""

    def on_requested(self, amounts: Mapping[str, int | None]) -> None:
        latest = {name: amount or 0 for name, amount in amounts.items()}
        self.requested = [*self.requested[1 - RECENT_WRITES :], latest]

    def on_written(self) -> None:
        self.lost = {}

    def on_status(self, before: Mapping[str, int], after: Mapping[str, int], now: float) -> None:
        """Record a change of the status by its author.

        Before the first write of this reclaimer, no change is attributed to another program.
        """
        changed = {name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0)}
        own = {name for name in changed if any(write.get(name) == after.get(name, 0) for write in self.requested)}
        for name in changed:
            if after.get(name, 0) or name in own:
                self.lost.pop(name, None)
            else:
                self.lost[name] = before[name]
        if self.requested and any(after.get(name, 0) for name in changed - own):
            self.foreign = [*self.foreign[1 - MAX_FOREIGN_CHANGES :], now]

    def is_contested(self, now: float) -> bool:
        """Whether another program made MAX_FOREIGN_CHANGES, without a QUIET_PERIOD after any of them."""
        times = [*self.foreign, now]
        # The absolute value, because the clock may have been set back after a change.
        quiet = any(abs(later - earlier) >= QUIET_PERIOD for earlier, later in itertools.pairwise(times))
        return len(self.foreign) == MAX_FOREIGN_CHANGES and not quiet
