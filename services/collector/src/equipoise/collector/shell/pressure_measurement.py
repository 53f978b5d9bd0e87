"""Measures the pressure of nodes and pods. Without it, or when a query fails, only the pressure is unknown."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

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
from equipoise.collector.shell.node_label_search import NodeLabelSearch
from equipoise.collector.sources import MetricSource, PressureSource
from equipoise.collector.state.placement import PodName
from equipoise.collector.state.pressure import PressureStore
from equipoise.collector.state.search_times import SearchTimes
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.async_tools.batching import in_thread_if_many

OF_PODS = "pods"
"""A key beside the exporters of nodes."""


@dataclass(kw_only=True)
class PressureMeasurement:
    """Keeps what was measured in `store`. A source without pressure is asked for none."""

    source: MetricSource
    enabled: bool
    store: PressureStore
    load: LoadSettings

    def __post_init__(self) -> None:
        length, period = self.load.shortest.length, self.load.longest.refresh_period
        self._searches = {
            key: NodeLabelSearch(times=SearchTimes(length=length, period=period)) for key in (*OF_NODES, OF_PODS)
        }
        """The label that names the node of each series, by exporter of nodes, and of the series of pods."""

        self.warning = ""
        """Why a query failed, after which the values of the round before are kept, or why values cannot be true; empty
        if neither is so."""

    @property
    def undivided(self) -> str:
        """Why queries are about all nodes though they should not be; empty if none is."""
        reasons = dict.fromkeys(search.undivided for search in self._searches.values() if search.undivided)
        return "; ".join(f"queries about pressure are not divided among the shards: {why}" for why in reasons)

    async def measure_nodes(
        self,
        targets: Mapping[str, MeasurementTarget],
        uids: Mapping[str, str],
        criteria: WindowCriteria,
        cluster: Collection[str] | None = None,
    ) -> None:
        """Measures these nodes, by name. `uids`: their UIDs, by name; `cluster`: the names of all nodes of the cluster,
        if queries are to be limited to these; None: they are about all nodes."""
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
            search = query.about("newest")
            if (samples := await self._divided(query, NODE_MEASURES, search, remaining, criteria, cluster)) is None:
                return
            known = await in_thread_if_many(len(remaining), pressure_of_nodes, samples, remaining, criteria)
            if cluster is not None:
                self._searches[exporter].times.on_missing(remaining.keys() - known.keys())
            readings |= known
        self.store.record({uids[name]: reading for name, reading in readings.items()}, criteria.at)
        self.warning = unknown_pressure({name: self.store.readings[uids[name]] for name in readings})

    async def measure_pods(
        self,
        targets: Mapping[PodName, MeasurementTarget],
        uids: Mapping[PodName, str],
        criteria: WindowCriteria,
        cluster: Collection[str] | None = None,
    ) -> None:
        """Measures these pods, by name, in one of several calls. `uids`: their UIDs; `cluster`: the names of all nodes,
        if queries are to be limited to those of these pods."""
        # Where no node has pressure, no pod has it.
        if not self.enabled or not self.store.readings or not self.store.pods_due(criteria.at):
            return
        query = PressureQuery(
            subject="pod", length=criteria.length, at=criteria.at, pod_series=criteria.intervals.pod_series
        )
        nodes, search = {target.node for target in targets.values()}, query.about("series")
        if (samples := await self._divided(query, POD_MEASURES, search, nodes, criteria, cluster)) is None:
            return
        pods = await in_thread_if_many(len(targets), pressure_of_pods, samples, targets, criteria)
        self.store.record_pods({uids[name]: pressure for name, pressure in pods.items()}, criteria.at)

    async def _divided(
        self,
        query: PressureQuery,
        measures: tuple[Measure, ...],
        search: PressureQuery,
        nodes: Collection[str],
        criteria: WindowCriteria,
        cluster: Collection[str] | None,
    ) -> dict[Measure, list[Sample]] | None:
        """The samples of this query about these nodes, as `_run`. `search`: finds the series of all nodes."""
        source = self.source
        if cluster is not None and isinstance(source, PressureSource):
            found = self._searches[query.exporter if query.subject == "node" else OF_PODS]
            matcher = await found.matcher(lambda: source.pressure(search), criteria.at, nodes, criteria.names, cluster)
            if matcher is not None and not matcher.values:
                return {measure: [] for measure in measures}
            query = msgspec.structs.replace(query, nodes=matcher)
        return await self._run(query, measures)

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
