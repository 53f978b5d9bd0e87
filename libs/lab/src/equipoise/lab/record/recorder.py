"""Records a trace: plans the recording, reads its parts from Prometheus, and writes the trace.

A few parts are read at a time, with pauses; parts that are too large are divided.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.http import QueryTooLarge
from equipoise.lab.record.aggregation import Aggregation, ValueCounts
from equipoise.lab.record.checkpoint import Checkpoint, RecordingPart, RecordingPlan, write_trace
from equipoise.lab.record.options import RecordError, RecordOptions, Summary, utc
from equipoise.lab.record.owners import WorkloadIndex
from equipoise.lab.record.progress import RecordProgress, progress_on
from equipoise.lab.record.prometheus import connect_prometheus, matrix_of, vector_of
from equipoise.lab.record.queries import METRICS, Resource
from equipoise.lab.record.survey import Survey
from equipoise.runtime.process.clock import Clock, SystemClock

PAUSE_SHARE = 0.5
"""Pause after each part, as a share of the time that it took: Prometheus has other clients too."""

MAX_PAUSE = 10.0

SCALES = {"cpu": 1_000.0, "memory": 2.0**-20}
"""The factors from cores and bytes to milli cores and MiB."""


async def record(options: RecordOptions, console: Console, clock: Clock | None = None) -> Summary:
    """Record a trace, or continue an interrupted recording. `console`: shows the progress on stderr.

    Raises RecordError with the fix. Parts that were read are kept until the trace is complete.
    """
    clock = clock or SystemClock()
    checkpoint = Checkpoint(options.out)
    plan = checkpoint.plan(options)
    async with progress_on(console) as progress, connect_prometheus(options.prometheus, clock) as prometheus:
        if plan is None:
            plan = await Survey(options, prometheus, progress, clock).plan()
            checkpoint.start(plan)
        else:
            progress.note(f"continuing the recording from {utc(plan.starts_at)} in {options.out}")
        try:
            await Reader(options, plan, prometheus, progress, clock).read(checkpoint)
        except BaseException:
            parts = plan.parts()
            kept = sum(map(checkpoint.has, parts))
            progress.note(
                f"{kept} of {len(parts)} parts are kept in {checkpoint.folder}; run the same command to continue"
            )
            raise
        progress.set_activity("writing the trace")
        summary = await asyncio.to_thread(write_trace, options, plan, checkpoint, prometheus.queries)
    for line in (str(summary), *summary.notes):
        progress.note(line)
    return summary


@dataclass
class Reader:
    """Reads the parts of one recording."""

    options: RecordOptions
    plan: RecordingPlan
    prometheus: PrometheusClient
    progress: RecordProgress
    clock: Clock

    def __post_init__(self) -> None:
        self._matchers = self.options.prometheus.matchers
        self._metrics = METRICS[self.plan.metrics]
        self._index = WorkloadIndex(self.plan.inventory.workloads, self.plan.owners)

    async def read(self, checkpoint: Checkpoint) -> None:
        """Read all missing parts. Raises RecordError."""
        parts = self.plan.parts()
        pending = [part for part in parts if not checkpoint.has(part)]
        self.progress.set_parts(len(parts) - len(pending), len(parts))
        next_parts = iter(pending)  # shared: each task takes the next part of it
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.options.prometheus.concurrency):
                    group.create_task(self._read(next_parts, checkpoint))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _read(self, next_parts: Iterator[RecordingPart], checkpoint: Checkpoint) -> None:
        for part in next_parts:
            started = self.clock.monotonic()
            aggregation = Aggregation(
                workloads=len(self.plan.inventory.workloads), ends=self._ends(part), step=self.plan.step
            )
            self.progress.set_activity(f"{part.resource} from {utc(self._ends(part)[0] - self.plan.step)}")
            await self._add(aggregation, part)
            _check(aggregation.counts)
            checkpoint.store(part, aggregation.means(), aggregation.counts)
            self.progress.advance()
            await self.clock.sleep(min(MAX_PAUSE, PAUSE_SHARE * (self.clock.monotonic() - started)))

    def _ends(self, part: RecordingPart) -> list[float]:
        """End times of the steps of the part."""
        step = self.plan.step
        return [self.plan.starts_at + (part.first + number + 1) * step for number in range(part.count)]

    async def _add(self, aggregation: Aggregation, part: RecordingPart, namespace: str = "") -> None:
        """Query the part. If it is too large, query each half, and a single step by namespace."""
        ends, step, resource = self._ends(part), self.plan.step, part.resource
        matchers = {**self._matchers, "namespace": namespace} if namespace else self._matchers
        text = self._metrics.usage(resource, matchers, step, self.plan.min_samples)
        try:
            response = await self.prometheus.query_range(text, matrix_of, start=ends[0], end=ends[-1], step=step)
        except QueryTooLarge as error:
            if part.count > 1:
                half = part.count // 2
                for first, count in ((part.first, half), (part.first + half, part.count - half)):
                    await self._add(aggregation, RecordingPart(resource=resource, first=first, count=count))
                return
            if namespace:
                raise RecordError(
                    f"{error}. That was one step of namespace {namespace} alone: raise Prometheus' limits on queries, "
                    "or our timeout and body limit"
                ) from None
            for name in await self._namespaces(resource, ends[0]):
                await self._add(aggregation, part, name)
        else:
            aggregation.add(response, self._index.of_pod, SCALES[resource])

    async def _namespaces(self, resource: Resource, end: float) -> list[str]:
        text = self._metrics.namespaces(resource, self._matchers, self.plan.step)
        response = await self.prometheus.query(text, vector_of, at=end)
        return sorted(series.labels["namespace"] for series in response if "namespace" in series.labels)


def _check(counts: ValueCounts) -> None:
    """Report configuration errors after the first part instead of after hours."""
    if counts.duplicates > counts.values:
        raise RecordError(
            "most pods have two series: does this Prometheus contain two clusters, or scrape each kubelet twice? "
            "Choose one with matchers, such as cluster=NAME or job=NAME"
        )
    if counts.unlabeled and not counts.values:
        raise RecordError(
            "the series of pods have no labels namespace and pod: is honor_labels missing in the scrape configuration?"
        )
