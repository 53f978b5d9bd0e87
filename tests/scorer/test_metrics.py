"""The metrics of the scorer."""

from math import isnan

from prometheus_client import CollectorRegistry

from equipoise.scorer.shell.metrics import ScorerMetrics

FOLLOWED, BY_CHANCE = "equipoise_scores_followed_ratio", "equipoise_scores_followed_by_chance_ratio"


def test_the_followed_ratio_is_nan_before_the_first_placed_pod() -> None:
    """0 would mean that kube-scheduler ignores scores."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)

    assert (metrics.scores_followed().placed, metrics.scores_followed().followed) == (0, None)
    assert isnan(registry.get_sample_value(FOLLOWED) or 0.0)
    assert isnan(registry.get_sample_value(BY_CHANCE) or 0.0)


def test_the_followed_ratio_is_that_of_the_last_thousand_pods() -> None:
    """If kube-scheduler begins to ignore scores, it shows soon."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)
    for followed in [True] * 1000 + [False] * 750:
        metrics.on_placed(followed=followed, chance=0.25)

    assert (
        metrics.scores_followed().placed,
        metrics.scores_followed().followed,
        metrics.scores_followed().by_chance,
    ) == (1_000, 0.25, 0.25)
    assert registry.get_sample_value(FOLLOWED) == 0.25
    assert registry.get_sample_value(BY_CHANCE) == 0.25
