"""The descheduler's metrics."""

from collections import Counter as Tally
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.contracts.messages.descheduling import NodeClassification

STATES = ("hot", "idle", "between", "sparse", "unknown")


class Telemetry:
    """Labels are strategies, states and outcomes: few, and known beforehand."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self.evaluation_seconds = Histogram(
            "equipoise_descheduler_evaluation_seconds",
            "Time that one evaluation took.",
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=metrics,
        )
        self.intents = Counter("equipoise_descheduler_intents", "Intents published.", ["strategy"], registry=metrics)
        self.outcomes = Counter(
            "equipoise_descheduler_outcomes", "Outcomes heard of intents.", ["outcome"], registry=metrics
        )
        self.returns = Counter(
            "equipoise_descheduler_same_node_returns",
            "Replacements that came back to the node their predecessor had left.",
            registry=metrics,
        )
        self.reliefs = Counter(
            "equipoise_descheduler_reliefs",
            "Evictions judged by what they did to the load of their node: better, or not.",
            ["result"],
            registry=metrics,
        )
        self.resting_nodes = Gauge(
            "equipoise_descheduler_resting_nodes",
            "Nodes that are left alone because evictions made them no better.",
            registry=metrics,
        )
        self.assumed_moves = Gauge(
            "equipoise_descheduler_assumed_moves", "Moves that were dry runs and count as done.", registry=metrics
        )
        self._nodes = Gauge(
            "equipoise_descheduler_nodes", "Nodes by state at the last evaluation.", ["strategy", "state"],
            registry=metrics,
        )  # fmt: skip

    def saw(self, strategy: str, verdicts: Sequence[NodeClassification]) -> None:
        tally: Tally[str] = Tally(verdict.state for verdict in verdicts)
        for state in STATES:
            self._nodes.labels(strategy, state).set(tally[state])
