"""The scorer's metrics."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.advice import ScoresFollowed
from equipoise.contracts.messages.placement import NodeInHint
from equipoise.contracts.numeric import Array, np

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_HINT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_MAX_PLACED = 1_000
_LOAD_BUCKETS = (*(round(tenth / 10, 1) for tenth in range(1, 11)), math.inf)
"""Upper bounds of load, as a share of the node."""


class ScorerMetrics:
    """All metrics of the scorer, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.request_duration = Histogram(
            "equipoise_scorer_request_duration_seconds",
            "Time from the last byte of a request to its response.",
            ["verb"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.requests = counter("equipoise_scorer_requests_total", "Extender requests by result.", "verb", "result")
        self.connections_dropped = counter(
            "equipoise_scorer_connections_dropped_total",
            "Connections to the extender that were closed: limit (too many), timeout (no request), handshake (TLS).",
            "reason",
        )
        self.certificate_end = gauge(
            "equipoise_scorer_certificate_expiry_timestamp_seconds",
            "When the certificate of the extender expires; 0 without TLS, or if unknown.",
        )
        self.neutral = counter("equipoise_scorer_neutral_total", "Neutral responses by reason.", "reason")
        self.decisions_dropped = counter(
            "equipoise_scorer_decisions_dropped_total", "Decisions that could not be published."
        )
        self.nodes = gauge("equipoise_scorer_nodes", "Nodes by whether their load is known or unknown.", "load")
        self.reservations = gauge("equipoise_scorer_reservations", "Scored pods that are not placed yet.")
        self.advice = counter(
            "equipoise_scorer_placement_advice_total",
            "Placed pods by what happened to their advice: published, skipped (above the rate), dropped (bus error).",
            "result",
        )
        self.shadow_requests = counter(
            "equipoise_scorer_shadow_requests_total", "Requests that the shadow policy scored too."
        )
        self.shadow_disagreements = counter(
            "equipoise_scorer_shadow_disagreements_total",
            "Requests with no best node in common with the shadow policy.",
        )
        self.shadow_failures = counter(
            "equipoise_scorer_shadow_failures_total", "Failures of the shadow policy: the first one switches it off."
        )
        self.hinted_workloads = gauge(
            "equipoise_scorer_hinted_workloads", "Workloads with a placement hint; 0 without sufficient data."
        )
        self.hint_messages = counter(
            "equipoise_scorer_hint_messages_total",
            "Messages with the placement hints of a namespace: published, or dropped (bus error).",
            "result",
        )
        self.hint_update = Histogram(
            "equipoise_scorer_hint_update_duration_seconds",
            "Time to compute all placement hints, in which requests are served too.",
            buckets=_HINT_BUCKETS,
            registry=registry,
        )
        self.placed_pods = counter(
            "equipoise_scorer_placed_pods_total",
            "Placed pods by what their placement hint does with their node: preferred, neither, avoided; none (created "
            "without a hint), unknown. Every scorer counts all pods.",
            "hint",
        )
        for hint in (*get_args(NodeInHint), "unknown"):
            self.placed_pods.labels(hint)  # the series starts at 0, because increase() ignores the first value
        followed = gauge(
            "equipoise_scores_followed_ratio",
            "Share of the last 1,000 placed pods that were placed on a best node of their response; NaN without any.",
        )
        by_chance = gauge(
            "equipoise_scores_followed_by_chance_ratio",
            "The share that a random choice among the candidates would have reached; NaN without any.",
        )
        self._cluster_load = gauge(
            "equipoise_scorer_cluster_load_ratio",
            "Load as a share of the base, by statistic: min, mean, max or deviation. Counted are nodes of known load "
            "that are Ready, not cordoned, and not of the control plane.",
            "resource",
            "statistic",
        )
        self._cluster_requests = gauge(
            "equipoise_scorer_cluster_requests_ratio",
            "What the pods of the same nodes request, as a share of their base, by statistic.",
            "resource",
            "statistic",
        )
        self._nodes_by_load = gauge(
            "equipoise_scorer_cluster_nodes_by_load",
            "Of the same nodes those whose load is at most `le`, as a share of their base.",
            "resource",
            "le",
        )
        self.extender_requests = 0
        """Requests of kube-scheduler."""

        self._placed: deque[tuple[bool, float]] = deque(maxlen=_MAX_PLACED)
        """The last placed pods: whether the score of each was followed, and the probability of that by chance."""

        # The means are computed only when metrics are scraped, because pods are placed far more often. A scrape runs in
        # another thread, so it reads a copy.
        followed.set_function(lambda: _mean([followed for followed, _ in tuple(self._placed)]))
        by_chance.set_function(lambda: _mean([chance for _, chance in tuple(self._placed)]))

    def scores_followed(self) -> ScoresFollowed:
        """The shares of placed pods whose scores were followed, and would be by chance, as a message."""
        if not self._placed:
            return ScoresFollowed(requests=self.extender_requests)
        followed, chance = zip(*self._placed, strict=True)
        return ScoresFollowed(
            requests=self.extender_requests, placed=len(followed), followed=_mean(followed), by_chance=_mean(chance)
        )

    def on_cluster(self, load: Array, requested: Array) -> None:
        """Set the gauges of the cluster from the load and the requests of nodes (rows) by resource (columns).

        Both are shares of the base. A node of which one of the two is unknown (NaN) is not counted.
        """
        statistics: Mapping[str, Callable[[Array], float]] = {
            "min": np.min,
            "mean": np.mean,
            "max": np.max,
            "deviation": np.std,
        }
        for index, resource in enumerate(RESOURCES):
            known = ~np.isnan(load[:, index]) & ~np.isnan(requested[:, index])
            loads, requests = load[known, index], requested[known, index]
            for name, function in statistics.items():
                self._cluster_load.labels(resource, name).set(function(loads) if len(loads) else math.nan)
                self._cluster_requests.labels(resource, name).set(function(requests) if len(loads) else math.nan)
            for bound in _LOAD_BUCKETS:
                label = "+Inf" if bound == math.inf else str(bound)
                self._nodes_by_load.labels(resource, label).set(int(np.count_nonzero(loads <= bound)))

    def on_placed(self, *, followed: bool, chance: float) -> None:
        """A scored pod was placed."""
        self._placed.append((followed, chance))


def _mean(values: Sequence[float]) -> float:
    """The mean; NaN without values, because 0 would mean that no score was ever followed."""
    return sum(values) / len(values) if values else math.nan
