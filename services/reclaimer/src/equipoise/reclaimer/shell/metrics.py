"""The reclaimer's metrics."""

from prometheus_client import CollectorRegistry, Gauge


class ReclaimerMetrics:
    """Of the fleet: nodes are no labels."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self.nodes = Gauge("equipoise_reclaimer_nodes", "Nodes whose placement is known.", registry=metrics)
