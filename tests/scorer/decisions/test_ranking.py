"""Points of a policy become the integers of kube-scheduler."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.scorer.decisions.neutral_scores import NEUTRAL, ExtenderScores
from equipoise.scorer.decisions.ranking import to_integers

many_points = st.lists(st.one_of(st.just(0.0), st.floats(0, 100)), min_size=1, max_size=20)


def integers_of(
    points: list[float], *, overfull: set[int] = frozenset(), avoided: set[int] = frozenset(), **options: int
) -> ExtenderScores:  # type: ignore[assignment]
    count = len(points)
    return to_integers(
        np.array(points),
        overfull=np.array([index in overfull for index in range(count)]),
        avoided=np.array([index in avoided for index in range(count)]),
        preferred=options.get("preferred"),
        min_spread=5.0,
        max_score=options.get("max_score", 10),
    )


def test_points_are_scaled_over_the_candidates() -> None:
    """The best usable candidate gets 10, the worst 1, whatever their points are."""
    assert integers_of([40, 32, 22]).scores.tolist() == [10, 6, 1]


def test_unusable_nodes_get_0() -> None:
    """Unknown (0 points), overfull and avoided nodes; they do not change the scale of the others."""
    found = integers_of([40, 0, 22, 90, 99], overfull={3}, avoided={4})

    assert found.scores.tolist() == [10, 0, 1, 0, 0]
    assert found.best.tolist() == [0]


def test_scores_are_neutral_below_the_minimum_spread() -> None:
    """Less than five points between best and worst: all nodes get the same, with the reason."""
    found = integers_of([40, 37, 35.1])

    assert found.scores.tolist() == [NEUTRAL] * 3
    assert found.neutral
    assert "4.9 points apart" in found.why


def test_the_minimum_spread_itself_is_enough() -> None:
    """Exactly five points."""
    assert integers_of([40, 35]).scores.tolist() == [10, 1]


def test_similar_nodes_score_higher_than_unknown_ones() -> None:
    """Nodes below the minimum spread still differ from an unknown node."""
    found = integers_of([40, 39, 0])

    assert found.scores.tolist() == [NEUTRAL, NEUTRAL, 0]
    assert not found.neutral


def test_scores_are_neutral_if_no_node_is_usable() -> None:
    """The pod must be placed: kube-scheduler decides alone."""
    found = integers_of([0, 50], overfull={1})

    assert found.neutral
    assert set(found.scores.tolist()) == {NEUTRAL}
    assert found.best.tolist() == []


def test_only_the_preferred_node_gets_the_maximum() -> None:
    """The others keep their order in the lower half: one step is less than kube-scheduler's own scores differ."""
    found = integers_of([40, 32, 22], preferred=2)

    assert found.scores.tolist() == [5, 3, 10]
    assert found.best.tolist() == [2]


def test_an_overfull_node_is_not_preferred() -> None:
    """A hint is not a reservation."""
    assert integers_of([40, 32, 22], overfull={2}, preferred=2).scores.tolist() == [10, 1, 0]


def test_a_maximum_of_100_has_the_same_proportions() -> None:
    """The worst usable node gets 10 and the best 100: the distance to 0 is the same tenth."""
    assert integers_of([40, 32, 22], max_score=100).scores.tolist() == [100, 60, 10]
    assert integers_of([40, 32, 22, 0], max_score=100, preferred=2).scores.tolist() == [50, 30, 100, 0]
    assert integers_of([40, 39, 0], max_score=100).scores.tolist() == [100, 100, 0]


@given(points=many_points, seed=st.integers(0, 2**20), max_score=st.sampled_from([10, 100]))
def test_every_node_gets_an_integer_from_0_to_the_maximum(points: list[float], seed: int, max_score: int) -> None:
    """A usable node with more points never gets less than one with fewer."""
    overfull = {index for index in range(len(points)) if seed >> index & 1}

    integers = integers_of(points, overfull=overfull, max_score=max_score).scores.tolist()

    assert len(integers) == len(points)
    assert all(isinstance(each, int) and 0 <= each <= max_score for each in integers)
    usable = [index for index in range(len(points)) if index not in overfull and points[index] > 0]
    for left in usable:
        assert all(integers[left] >= integers[right] for right in usable if points[left] >= points[right])
