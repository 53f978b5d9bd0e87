"""From points to the integers of kube-scheduler."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.scorer.decisions.score_integers import NEUTRAL, Answer, answer

points = st.lists(st.one_of(st.just(0.0), st.floats(0, 100)), min_size=1, max_size=20)


def ask(
    scores: list[float], *, overfull: set[int] = frozenset(), avoided: set[int] = frozenset(), **rest: int
) -> Answer:  # type: ignore[assignment]
    count = len(scores)
    return answer(
        np.array(scores),
        overfull=np.array([index in overfull for index in range(count)]),
        avoided=np.array([index in avoided for index in range(count)]),
        preferred=rest.get("preferred"),
        least_spread=5.0,
        highest=rest.get("highest", 10),
    )


def test_scores_are_stretched_over_the_candidates() -> None:
    """The best candidate gets 10, the worst that may be used 1, whatever their points are."""
    assert ask([40, 32, 22]).scores.tolist() == [10, 6, 1]


def test_nodes_to_keep_away_from_get_zero() -> None:
    """Unknown (0 points), overfull and avoided nodes get 0 and do not narrow the scale of the others."""
    given_answer = ask([40, 0, 22, 90, 99], overfull={3}, avoided={4})

    assert given_answer.scores.tolist() == [10, 0, 1, 0, 0]
    assert given_answer.best.tolist() == [0]


def test_nodes_that_are_alike_are_not_told_apart() -> None:
    """Less than five points between best and worst: everyone gets the same, and the answer says so."""
    given_answer = ask([40, 37, 35.1])

    assert given_answer.scores.tolist() == [NEUTRAL] * 3
    assert given_answer.neutral
    assert "4.9 points apart" in given_answer.why


def test_five_points_are_enough() -> None:
    """At the mark itself nodes are told apart."""
    assert ask([40, 35]).scores.tolist() == [10, 1]


def test_nodes_that_are_alike_still_beat_unknown_ones() -> None:
    """Being alike among themselves does not make an unknown node their equal."""
    given_answer = ask([40, 39, 0])

    assert given_answer.scores.tolist() == [NEUTRAL, NEUTRAL, 0]
    assert not given_answer.neutral


def test_when_no_node_may_be_used_all_get_the_same() -> None:
    """A pod must go somewhere: with no node left, kube-scheduler decides alone."""
    given_answer = ask([0, 50], overfull={1})

    assert given_answer.neutral
    assert set(given_answer.scores.tolist()) == {NEUTRAL}
    assert given_answer.best.tolist() == []


def test_the_preferred_node_is_alone_at_the_top() -> None:
    """The others keep their order in the lower half: one step is less than what kube-scheduler adds."""
    given_answer = ask([40, 32, 22], preferred=2)

    assert given_answer.scores.tolist() == [5, 3, 10]
    assert given_answer.best.tolist() == [2]


def test_a_preferred_node_without_room_is_not_preferred() -> None:
    """A hint is no promise."""
    assert ask([40, 32, 22], overfull={2}, preferred=2).scores.tolist() == [10, 1, 0]


def test_a_finer_scale_has_the_same_shape() -> None:
    """With 100 the worst that may be used gets 10 and the best 100: the distance to 0 is the same tenth."""
    assert ask([40, 32, 22], highest=100).scores.tolist() == [100, 60, 10]
    assert ask([40, 32, 22, 0], highest=100, preferred=2).scores.tolist() == [50, 30, 100, 0]
    assert ask([40, 39, 0], highest=100).scores.tolist() == [100, 100, 0]


@given(scores=points, seed=st.integers(0, 2**20), highest=st.sampled_from([10, 100]))
def test_every_answer_is_a_list_of_integers_0_to_the_highest(scores: list[float], seed: int, highest: int) -> None:
    """Exactly one integer per node; a better node never gets less than a worse one that may be used."""
    overfull = {index for index in range(len(scores)) if seed >> index & 1}

    integers = ask(scores, overfull=overfull, highest=highest).scores.tolist()

    assert len(integers) == len(scores)
    assert all(isinstance(each, int) and 0 <= each <= highest for each in integers)
    usable = [index for index in range(len(scores)) if index not in overfull and scores[index] > 0]
    for left in usable:
        assert all(integers[left] >= integers[right] for right in usable if scores[left] >= scores[right])
