"""Reads the parts of a recording from Prometheus: a few at a time, with rests, and smaller ones where it must be."""

import asyncio
from collections.abc import Iterator

from equipoise.lab.record.aggregation import Aggregation, Tally
from equipoise.lab.record.checkpoint import Checkpoint, Part, RecordingPlan
from equipoise.lab.record.options import RecordError, RecordOptions
from equipoise.lab.record.owners import Owners, WorkloadIndex
from equipoise.lab.record.progress import Shown
from equipoise.lab.record.prometheus import Prometheus, TooLarge
from equipoise.lab.record.queries import METRICS, Resource
from equipoise.lab.record.writer import moment
from equipoise.runtime.process.clock import Clock

REST = 0.5
"""After a part a reader rests for this share of the time it took: Prometheus has others to answer too."""

LONGEST_REST = 10.0

SCALES = {"cpu": 1_000.0, "memory": 2.0**-20}
"""From cores and bytes to milli cores and MiB."""


class Reader:
    """Reads one recording."""

    def __init__(
        self, options: RecordOptions, beginning: RecordingPlan, prometheus: Prometheus, progress: Shown, clock: Clock
    ) -> None:
        self._concurrency = options.prometheus.concurrency
        self._matchers = options.prometheus.matchers
        self._beginning = beginning
        self._metrics = METRICS[beginning.metrics]
        self._owners = Owners(WorkloadIndex(beginning.inventory.workloads), beginning.owners)
        self._prometheus = prometheus
        self._progress = progress
        self._clock = clock

    async def read(self, unfinished: Checkpoint) -> None:
        """Every part that is not there yet. Raises RecordError."""
        parts = self._beginning.parts()
        waiting = [part for part in parts if not unfinished.has(part)]
        self._progress.parts(len(parts) - len(waiting), len(parts))
        shared = iter(waiting)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(self._read(shared, unfinished))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _read(self, waiting: Iterator[Part], unfinished: Checkpoint) -> None:
        for part in waiting:
            begun = self._clock.monotonic()
            fold = Aggregation(
                workloads=len(self._beginning.inventory.workloads), ends=self._ends(part), step=self._beginning.step
            )
            self._progress.doing(f"{part.resource} from {moment(self._ends(part)[0] - self._beginning.step)}")
            await self._add(fold, part)
            _check(fold.tally)
            unfinished.keep(part, fold.means(), fold.tally)
            self._progress.advance()
            await self._clock.sleep(min(LONGEST_REST, REST * (self._clock.monotonic() - begun)))

    def _ends(self, part: Part) -> list[float]:
        """The instants at which the part's steps end."""
        step = self._beginning.step
        return [self._beginning.starts_at + (part.first + number + 1) * step for number in range(part.count)]

    async def _add(self, fold: Aggregation, part: Part, namespace: str = "") -> None:
        """Ask for it; where that is too large for half of the time, and at last namespace by namespace."""
        ends, step, resource = self._ends(part), self._beginning.step, part.resource
        matchers = {**self._matchers, "namespace": namespace} if namespace else self._matchers
        text = self._metrics.usage(resource, matchers, step, self._beginning.least_samples)
        try:
            answer = await self._prometheus.matrix(text, ends[0], ends[-1], step)
        except TooLarge as error:
            if part.count > 1:
                half = part.count // 2
                await self._add(fold, Part(resource=resource, first=part.first, count=half))
                await self._add(fold, Part(resource=resource, first=part.first + half, count=part.count - half))
                return
            if namespace:
                raise RecordError(
                    f"{error}. That was one step of namespace {namespace} alone: raise Prometheus' limits on queries, "
                    "or our own timeout and body limit"
                ) from None
            for name in await self._namespaces(resource, ends[0]):
                await self._add(fold, part, name)
        else:
            fold.add(answer, self._owners.of, SCALES[resource])

    async def _namespaces(self, resource: Resource, end: float) -> list[str]:
        answer = await self._prometheus.vector(
            self._metrics.namespaces(resource, self._matchers, self._beginning.step), end
        )
        return sorted(series.labels["namespace"] for series in answer if "namespace" in series.labels)


def _check(tally: Tally) -> None:
    """Faults of the whole setup are told at the first part, not after hours."""
    if tally.doubled > tally.readings:
        raise RecordError(
            "most pods have two series each: does this Prometheus know two clusters, or scrape each kubelet twice? "
            "Choose one with matchers, such as cluster=NAME or job=NAME"
        )
    if tally.nameless and not tally.readings:
        raise RecordError(
            "the series of pods have no labels namespace and pod: does the scrape configuration lack honor_labels?"
        )
