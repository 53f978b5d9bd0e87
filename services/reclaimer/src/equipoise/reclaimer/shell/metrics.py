"""The reclaimer's metrics."""

from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.reclaimer.decisions.evaluation import DISABLED


class ReclaimerMetrics:
    """Metrics of all nodes together: nodes are no labels."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self.nodes = Gauge(
            "equipoise_reclaimer_nodes",
            "Nodes by state: current, degraded (old or reduced amounts), disabled (by their strategy).",
            ["state"],
            registry=metrics,
        )
        self._amounts = Gauge(
            "equipoise_reclaimer_amounts",
            "Cores and bytes of all nodes, by band, resource and kind (reclaimed, offered, requested).",
            ["band", "resource", "kind"],
            registry=metrics,
        )
        self.evaluation_duration = Histogram(
            "equipoise_reclaimer_evaluation_duration_seconds",
            "Time of one evaluation of all nodes.",
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10),
            registry=metrics,
        )
        self.evaluated_at = Gauge(
            "equipoise_reclaimer_last_evaluation_timestamp_seconds",
            "End of the last evaluation; 0 on a replica that does not lead.",
            registry=metrics,
        )
        self.writes = Counter(
            "equipoise_reclaimer_writes", "Writes of the status of a node, by result.", ["result"], registry=metrics
        )
        self.messages_dropped = Counter(
            "equipoise_reclaimer_messages_dropped",
            "Messages that could not be published; the next evaluation publishes the node again.",
            registry=metrics,
        )
        self.contested = Gauge(
            "equipoise_reclaimer_contested_nodes",
            "Nodes whose status is not written because another program changes the same resources.",
            registry=metrics,
        )
        self.writes_pending = Gauge(
            "equipoise_reclaimer_writes_pending", "Nodes whose status is to be written.", registry=metrics
        )

    def on_evaluation(self, messages: Iterable[ReclaimedNode]) -> None:
        """An amount that is unknown of every node has no value."""
        nodes, amounts = Counts[str](), defaultdict[tuple[str, str, str], float](float)
        for message in messages:
            state = "disabled" if message.degraded == DISABLED else "degraded" if message.degraded else "current"
            nodes[state] += 1
            for band, each in message.bands.items():
                for kind in ("reclaimed", "offered", "requested"):
                    found = getattr(each, kind)
                    for resource, amount in (("cpu", found.cpu), ("memory", found.memory)):
                        if amount is not None:
                            amounts[band, resource, kind] += amount
        for state in ("current", "degraded", "disabled"):
            self.nodes.labels(state).set(nodes[state])
        self._amounts.clear()
        for labels, amount in amounts.items():
            self._amounts.labels(*labels).set(amount)

    def clear(self) -> None:
        """Removes all values: only the leader has any."""
        self.nodes.clear()
        self._amounts.clear()
        self.evaluated_at.set(0)
        self.writes_pending.set(0)
        self.contested.set(0)
