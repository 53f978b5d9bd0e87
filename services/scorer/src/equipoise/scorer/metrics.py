"""What the scorer counts."""

from collections import deque

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
        self.bookings = Gauge("equipoise_score_reservations", "Answers not placed yet.", registry=registry)
        self._followed = Gauge(
            "equipoise_scores_followed_ratio",
            "Share of the last 1,000 placed pods that came to a best node of their answer.",
            registry=registry,
        )
        self._chance = Gauge(
            "equipoise_scores_followed_by_chance_ratio",
            "The share that a blind choice among the candidates would have reached.",
            registry=registry,
        )
        self._placed: deque[tuple[bool, float]] = deque(maxlen=_REMEMBERED)

    def on_placed(self, *, followed: bool, chance: float) -> None:
        """A pod that was scored has found its node."""
        self._placed.append((followed, chance))
        self._followed.set(sum(each for each, _ in self._placed) / len(self._placed))
        self._chance.set(sum(each for _, each in self._placed) / len(self._placed))
