"""The collector's own metrics."""

from collections.abc import Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.collector.decisions.pressure.pressure_query import PRESSURE_RESOURCES
from equipoise.collector.decisions.validation.usage import Reason
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.pressure import Pressure


class CollectorMetrics:
    """The metrics of a collector. No label holds a node or a pod: there may be very many."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.rounds = Counter(
            "equipoise_collector_rounds", "Rounds of queries to the metric source.", ["window", "result"],
            registry=registry,
        )  # fmt: skip
        self.round_duration = Histogram(
            "equipoise_collector_round_duration_seconds", "Duration of a round.", ["window"], registry=registry
        )
        self.placements_published = Counter(
            "equipoise_collector_placements_published", "Placements published, one per changed node.",
            registry=registry,
        )  # fmt: skip
        self._expected = gauge("equipoise_collector_nodes_expected", "Ready nodes that should have data.")
        self._fresh = gauge("equipoise_collector_nodes_fresh", "Expected nodes of known load.")
        self._unknown = gauge(
            "equipoise_collector_nodes_unknown", "Expected nodes of unknown load, by reason.", "reason"
        )
        self._pressure_known = gauge("equipoise_collector_nodes_with_pressure", "Nodes of known pressure.")
        self._pressure = gauge(
            "equipoise_collector_highest_pressure",
            "Share of time (0..1) in which processes wait on the node where they wait most; absent if unknown.",
            "resource",
        )
        self._skew = gauge("equipoise_collector_source_skew_seconds", "Clock of the metric source minus ours.")

    def on_pressure(self, waiting: Sequence[Pressure]) -> None:
        """Sets the metrics of pressure. `waiting`: the known pressure of each node."""
        self._pressure_known.set(len(waiting))
        self._pressure.clear()
        for resource in PRESSURE_RESOURCES:
            known = [share for item in waiting if (share := getattr(item, resource)) is not None]
            if known:
                self._pressure.labels(resource).set(max(known))

    def on_cycle(self, cycles: Sequence[UtilizationCycle]) -> None:
        """Sets the metrics at the end of a round. `cycles`: one for each shard of this replica; empty when it holds
        none any more."""
        self._expected.set(sum(cycle.expected for cycle in cycles))
        self._fresh.set(sum(cycle.fresh for cycle in cycles))
        self._skew.set(skew_of(cycles))
        for reason in get_args(Reason):
            count = sum(cycle.reasons.get(reason, 0) for cycle in cycles)
            self._unknown.labels(reason.replace(" ", "_")).set(count)
