"""Reads of workloads that several decisions share: with many open moves, each decision needs the workloads of all."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from equipoise.binder.shell.live_reads import read_replacement, read_workload
from equipoise.binder.state.ledger import ReplacementStatus
from equipoise.binder.state.ledger_entry import CERTAIN, LedgerEntry
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock

SHARED_FOR = 1.0
"""Seconds for which a read is used again. It leaves as much time until `MAX_READ_AGE` for the eviction."""


_LONG_SETTLED = 6
"""The multiple of `replacementSettlingPeriod` after which a pod that still terminates may have been replaced."""


@dataclass
class RecentWorkloads:
    """The latest reads of workloads by one binder."""

    kube: Kube
    clock: Clock

    def __post_init__(self) -> None:
        self._reads: dict[Workload, tuple[float, WorkloadObject]] = {}

    def known(self, workload: Workload, max_age: float) -> tuple[float, WorkloadObject] | None:
        """The workload, and when its read began (monotonic clock); None without a read in the last `max_age`
        seconds."""
        read = self._reads.get(workload)
        return read if read is not None and self.clock.monotonic() - read[0] < max_age else None

    async def read(self, workload: Workload) -> tuple[float, WorkloadObject]:
        """The workload as it is now, and when its read began. Raises as `read_workload`."""
        now = self.clock.monotonic()
        self._reads = {each: read for each, read in self._reads.items() if now - read[0] < SHARED_FOR}
        read = now, await read_workload(self.kube, workload)
        self._reads[workload] = read
        return read


@dataclass
class DecisionReads:
    """The workloads that one decision reads. A refusal is decided again with reads of its own: what was read a moment
    ago may have been the reason."""

    recent: RecentWorkloads
    max_age: float = SHARED_FOR
    """Seconds since the begin of a read that another decision made; 0 if none is used."""

    oldest: float = field(default=math.inf, init=False)
    """The time at which the oldest of these reads began, on the monotonic clock; infinite without one."""

    shared: bool = field(default=False, init=False)
    """Whether a read of another decision was used."""

    async def workload(self, workload: Workload) -> WorkloadObject:
        known = self.recent.known(workload, self.max_age)
        self.shared = self.shared or known is not None
        began_at, found = known or await self.recent.read(workload)
        self.oldest = min(self.oldest, began_at)
        return found

    async def statuses(
        self, pending: Sequence[LedgerEntry], now: float, settling_period: float
    ) -> dict[str, ReplacementStatus]:
        """The status of the replacement of each entry, by intent. `now`: the time of the API server's clock;
        `settling_period`: seconds after an eviction in which the status of its workload is late."""
        statuses = await asyncio.gather(*(self._status(entry, now, settling_period) for entry in pending))
        return {entry.intent_id: status for entry, status in zip(pending, statuses, strict=True)}

    async def _status(self, entry: LedgerEntry, now: float, period: float) -> ReplacementStatus:
        known = None if entry.workload is None else self.recent.known(entry.workload, self.max_age)
        read_at = now if known is None else now - (self.recent.clock.monotonic() - known[0])
        elapsed = -math.inf if entry.settled_at is None else read_at - entry.settled_at
        return await read_replacement(
            self.recent.kube,
            entry,
            self.workload,
            settled=elapsed >= period,
            long_settled=elapsed >= _LONG_SETTLED * period,
            expired=entry.outcome not in CERTAIN and now - entry.latest >= period,
        )

    def anew(self) -> "DecisionReads":
        """Reads of the same workloads that use none of another decision."""
        return DecisionReads(self.recent, max_age=0.0)
