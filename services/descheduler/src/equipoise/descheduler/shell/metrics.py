"""The descheduler's metrics."""

from collections import Counter as Tally
from collections.abc import Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.contracts.messages.descheduling import NodeClassification, ReplacementResult

STATES = ("hot", "idle", "between", "sparse", "unknown")


class DeschedulerMetrics:
    """Labels are strategies, states and outcomes: few values, all known in advance."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self.evaluation_duration = Histogram(
            "equipoise_descheduler_evaluation_duration_seconds",
            "Duration of an evaluation.",
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=metrics,
        )
        self.intents = Counter("equipoise_descheduler_intents", "Intents published.", ["strategy"], registry=metrics)
        self.outcomes = Counter(
            "equipoise_descheduler_outcomes", "Outcomes of intents received.", ["outcome"], registry=metrics
        )
        self.returns = Counter(
            "equipoise_descheduler_same_node_returns",
            "Replacements that were scheduled to the node from which their predecessor was evicted.",
            registry=metrics,
        )
        self.replacements = Counter(
            "equipoise_descheduler_replacements",
            "Replacements of evicted pods by where they were scheduled: as_planned, elsewhere or returned.",
            ["result"],
            registry=metrics,
        )
        for result in get_args(ReplacementResult):
            self.replacements.labels(result)
        self.load_reductions = Counter(
            "equipoise_descheduler_load_reductions",
            "Nodes whose load was compared after evictions: reduced or not_reduced.",
            ["result"],
            registry=metrics,
        )
        self.nodes_in_cooldown = Gauge(
            "equipoise_descheduler_nodes_in_cooldown",
            "Nodes in cooldown because evictions did not reduce their load.",
            registry=metrics,
        )
        self.dry_run_moves = Gauge(
            "equipoise_descheduler_dry_run_moves", "Moves of dry runs that count as done.", registry=metrics
        )
        self.nodes_being_emptied = Gauge(
            "equipoise_descheduler_nodes_being_emptied",
            "Nodes that consolidation is emptying, including empty ones that no autoscaler has removed yet.",
            registry=metrics,
        )
        self._nodes = Gauge(
            "equipoise_descheduler_nodes", "Nodes by state at the last evaluation.", ["strategy", "state"],
            registry=metrics,
        )  # fmt: skip

    def on_classified(self, strategy: str, classifications: Sequence[NodeClassification]) -> None:
        tally: Tally[str] = Tally(node.state for node in classifications)
        for state in STATES:
            self._nodes.labels(strategy, state).set(tally[state])
