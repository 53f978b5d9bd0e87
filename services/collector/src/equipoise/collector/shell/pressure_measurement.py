"""Measures the pressure of nodes and pods. Without it, or when a query fails, only the pressure is unknown."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from equipoise.collector.decisions.pressure.pressure_query import (
    NODE_MEASURES,
    OF_NODES,
    POD_MEASURES,
    Measure,
    PressureQuery,
)
from equipoise.collector.decisions.pressure.pressure_readings import (
    PressureReading,
    pressure_of_nodes,
    pressure_of_pods,
    unknown_pressure,
)
from equipoise.collector.decisions.query import Sample, SourceError
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria, is_short, min_samples
from equipoise.collector.sources import MetricSource, PressureSource
from equipoise.collector.state.placement import PodName
from equipoise.collector.state.pressure import PressureStore
from equipoise.runtime.async_tools.batching import in_thread_if_many


@dataclass(kw_only=True)
class PressureMeasurement:
    """Keeps what was measured in `store`. A source without pressure is asked for none."""

    source: MetricSource
    enabled: bool
    store: PressureStore

    def __post_init__(self) -> None:
        self.warning = ""
        """Why a query failed, after which the values of the round before are kept, or why values cannot be true; empty
        if neither is so."""

    async def measure_nodes(
        self, targets: Mapping[str, MeasurementTarget], uids: Mapping[str, str], criteria: WindowCriteria
    ) -> None:
        """Measures these nodes, by name. `uids`: their UIDs, by name."""
        interval = criteria.intervals.default
        if not self.enabled or interval is None or is_short(criteria.length, interval):
            return
        self.warning = ""
        readings: dict[str, PressureReading] = {}
        for exporter in OF_NODES:
            remaining = {name: target for name, target in targets.items() if name not in readings}
            if not remaining:
                continue
            query = PressureQuery(
                subject="node", length=criteria.length, at=criteria.at, exporter=exporter,
                min_samples=min_samples(criteria, interval),
            )  # fmt: skip
            if (samples := await self._run(query, NODE_MEASURES)) is None:
                return
            readings |= await in_thread_if_many(len(remaining), pressure_of_nodes, samples, remaining, criteria)
        self.store.record({uids[name]: reading for name, reading in readings.items()}, criteria.at)
        self.warning = unknown_pressure({name: self.store.readings[uids[name]] for name in readings})

    async def measure_pods(
        self, targets: Mapping[PodName, MeasurementTarget], uids: Mapping[PodName, str], criteria: WindowCriteria
    ) -> None:
        """Measures these pods, in one of several calls. `uids`: their UIDs, by name."""
        # Where no node has pressure, no pod has it.
        if not self.enabled or not self.store.readings or not self.store.pods_due(criteria.at):
            return
        query = PressureQuery(
            subject="pod", length=criteria.length, at=criteria.at, pod_series=criteria.intervals.pod_series
        )
        if (samples := await self._run(query, POD_MEASURES)) is None:
            return
        pods = await in_thread_if_many(len(targets), pressure_of_pods, samples, targets, criteria)
        self.store.record_pods({uids[name]: pressure for name, pressure in pods.items()}, criteria.at)

    async def _run(self, query: PressureQuery, measures: tuple[Measure, ...]) -> dict[Measure, list[Sample]] | None:
        """The samples of this query by measure; None if one of them fails, or if the source has no pressure."""
        if not isinstance(self.source, PressureSource):
            return None
        try:
            results = await asyncio.gather(*(self.source.pressure(query.about(measure)) for measure in measures))
        except SourceError as error:
            self.warning = f"pressure of {query.subject}s: {error}"
            return None
        return dict(zip(measures, results, strict=True))
