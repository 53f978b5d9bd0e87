"""What the collector reports of itself (`runtime.process.health.Health`)."""

from typing import Protocol


class ProblemReport(Protocol):
    def set_problem(self, key: str, text: str | None) -> None: ...


class CollectorHealth(ProblemReport, Protocol):
    """`leading`: this replica holds a shard. `shard`: the name that collectors of the same nodes share."""

    leading: bool | None
    shard: str

    def warmed_up(self) -> None: ...
