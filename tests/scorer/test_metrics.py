"""What the scorer counts."""

from math import isnan

from prometheus_client import CollectorRegistry

from equipoise.scorer.shell.metrics import ScorerMetrics

FOLLOWED, BY_CHANCE = "equipoise_scores_followed_ratio", "equipoise_scores_followed_by_chance_ratio"


def test_before_the_first_placed_pod_nobody_knows_whether_scores_are_followed() -> None:
    """0 would say that kube-scheduler ignores them."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)

    assert (metrics.scores().placed, metrics.scores().followed) == (0, None)
    assert isnan(registry.get_sample_value(FOLLOWED) or 0.0)
    assert isnan(registry.get_sample_value(BY_CHANCE) or 0.0)


def test_followed_scores_are_counted_beside_chance_over_the_last_thousand_pods() -> None:
    """A scheduler that stops listening shows, however long it listened before."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)
    for followed in [True] * 1000 + [False] * 750:
        metrics.on_placed(followed=followed, chance=0.25)

    assert (metrics.scores().placed, metrics.scores().followed, metrics.scores().by_chance) == (1_000, 0.25, 0.25)
    assert registry.get_sample_value(FOLLOWED) == 0.25
    assert registry.get_sample_value(BY_CHANCE) == 0.25
