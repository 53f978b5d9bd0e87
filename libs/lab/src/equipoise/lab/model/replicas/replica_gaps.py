"""How long workloads have fewer running replicas than wanted."""

from collections import Counter


class ReplicaGaps:
    """The time in which workloads have fewer running pods than wanted.

    A replica counts as wanted once it has run: the start of an added replica is no gap. Times are seconds.
    """

    def __init__(self) -> None:
        self._wanted: Counter[int] = Counter()
        self._since: dict[int, float] = {}
        """The time at which a gap began, by workload."""

        self._seconds = 0.0

    def update(self, workload: int, *, desired: int, running: int, now: float) -> None:
        """Records the pods of a workload after a change. `running`: the pods that are ready and not terminating."""
        wanted = self._wanted[workload] = min(desired, max(self._wanted[workload], running))
        if running < wanted:
            self._since.setdefault(workload, now)
        elif (since := self._since.pop(workload, None)) is not None:
            self._seconds += now - since

    def seconds(self, now: float) -> float:
        """The seconds of all gaps until `now`, summed over the workloads."""
        return self._seconds + sum(now - since for since in self._since.values())
