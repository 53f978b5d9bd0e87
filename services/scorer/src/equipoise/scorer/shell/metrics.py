"""What the scorer counts."""

import math
from collections import deque
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.contracts.messages.advice import ScoresFollowed

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_REMEMBERED = 1_000


class ScorerMetrics:
    """All metrics of the scorer, on the registry handed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "equipoise_score_seconds",
            "From a question's last byte to its answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.questions = Counter(
            "equipoise_score_questions_total", "Questions by how they ended.", ["verb", "result"], registry=registry
        )
        self.neutral = Counter(
            "equipoise_score_neutral_total", "Neutral answers by reason.", ["reason"], registry=registry
        )
        self.dropped = Counter(
            "equipoise_score_decisions_dropped_total", "Decisions that could not be published.", registry=registry
        )
        self.late = Counter(
            "equipoise_score_outdated_messages_total", "Messages older than what is held.", ["kind"], registry=registry
        )
        self.nodes = Gauge("equipoise_score_nodes", "Nodes heard of, by what is known.", ["load"], registry=registry)
        self.advice = Counter(
            "equipoise_placement_advice_total",
            "Placed pods by what became of the advice: told, skipped (they came too fast), dropped (the bus).",
            ["result"],
            registry=registry,
        )
        self.shadow_questions = Counter(
            "equipoise_shadow_questions_total", "Questions that the shadow policy looked at too.", registry=registry
        )
        self.shadow_disagreements = Counter(
            "equipoise_shadow_disagreements_total",
            "Questions to which none of its best nodes was one of the answer's.",
            registry=registry,
        )
        self.shadow_failures = Counter(
            "equipoise_shadow_failures_total",
            "Failures of the shadow policy: the first switches it off.",
            registry=registry,
        )
        self.bookings = Gauge("equipoise_score_reservations", "Answers not placed yet.", registry=registry)
        followed = Gauge(
            "equipoise_scores_followed_ratio",
            "Share of the last 1,000 placed pods that came to a best node of their answer; NaN before the first.",
            registry=registry,
        )
        by_chance = Gauge(
            "equipoise_scores_followed_by_chance_ratio",
            "The share that a blind choice among the candidates would have reached; NaN before the first.",
            registry=registry,
        )
        self.asked = 0
        """Questions that kube-scheduler has asked."""

        self._placed: deque[tuple[bool, float]] = deque(maxlen=_REMEMBERED)
        # Worked out when somebody looks, in another thread: pods are placed far more often.
        followed.set_function(lambda: _mean([each for each, _ in tuple(self._placed)]))
        by_chance.set_function(lambda: _mean([each for _, each in tuple(self._placed)]))

    def scores(self) -> ScoresFollowed:
        """The same two shares, for those who hear the bus only."""
        followed, chance = [each for each, _ in self._placed], [each for _, each in self._placed]
        if not followed:
            return ScoresFollowed(requests=self.asked)
        return ScoresFollowed(
            requests=self.asked, placed=len(followed), followed=_mean(followed), by_chance=_mean(chance)
        )

    def on_placed(self, *, followed: bool, chance: float) -> None:
        """A pod that was scored has found its node."""
        self._placed.append((followed, chance))


def _mean(values: Sequence[float]) -> float:
    """NaN of nothing: 0 would say that no score was ever followed."""
    return sum(values) / len(values) if values else math.nan
