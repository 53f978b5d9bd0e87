"""The choice of nodes from points."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scorer.hinted import SETTINGS

from equipoise.contracts.messages.placement import MAX_HOSTNAMES
from equipoise.contracts.numeric import Flags, Singles
from equipoise.scorer.decisions.placement_hints.selection import select
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

tables = st.tuples(st.integers(1, 4), st.integers(1, 12)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0, 20.0, 50.0, 99.0])), arrays(np.bool_, shape)
    )
)


@given(table=tables)
def test_only_candidates_are_chosen_and_the_best_have_the_most_points(table: tuple[Singles, Flags]) -> None:
    """No candidate that was not chosen is better than a preferred one, or worse than an avoided one."""
    points, candidates = table
    selection = select(points, candidates, SETTINGS)

    for row in range(len(points)):
        best, worst = (columns[row][columns[row] >= 0] for columns in (selection.best, selection.worst))
        usable = np.flatnonzero(candidates[row] & (points[row] > 0.0))
        assert set(best.tolist()) <= set(usable.tolist())
        assert candidates[row][worst].all()
        assert len(worst) <= candidates[row].sum() / 4
        assert len(best) <= SETTINGS.preferred_nodes
        others = np.setdiff1d(usable, best)
        if len(best) and len(others):
            assert points[row][best].min() >= points[row][others].max()
        assert (np.diff(points[row][best]) <= 0).all()
        assert (np.diff(points[row][worst]) >= 0).all()


@given(table=tables)
def test_grades_fall_with_the_square_of_the_points_that_a_node_lacks(table: tuple[Singles, Flags]) -> None:
    """From the highest one for the best node down to 1 for the last preferred one, which is any if all are equal."""
    points, candidates = table
    settings = msgspec.structs.replace(SETTINGS, terms=4, preferred_nodes=12)
    selection = select(points, candidates, settings)

    for row, (best, grades) in enumerate(zip(selection.best, selection.grades, strict=True)):
        assert (grades[best < 0] == 0).all()
        of_best, graded = points[row][best[best >= 0]], grades[best >= 0]
        if not len(graded):
            continue
        assert graded[0] == settings.grades
        between = of_best[0] - of_best[-1]
        if between:
            assert graded[-1] == 1
            lacking = (of_best[0] - of_best) / between
            assert np.abs(settings.grades - graded - lacking**2 * (settings.grades - 1)).max() <= 0.5


@pytest.mark.parametrize("most", [0, 25, MAX_HOSTNAMES])
def test_no_more_nodes_are_avoided_than_the_settings_permit(most: int) -> None:
    points, candidates = np.arange(1, 401, dtype=np.float32)[np.newaxis], np.ones((1, 400), np.bool_)

    worst = select(points, candidates, msgspec.structs.replace(SETTINGS, avoided_nodes=most)).worst[0]

    assert list(range(most)) == worst[worst >= 0].tolist()


@pytest.mark.parametrize(("nodes", "expected"), [(1_000, 30), (4_000, 30), (5_000, 50), (15_000, 50)])
def test_in_a_large_cluster_more_nodes_are_preferred(nodes: int, expected: int) -> None:
    """kube-scheduler scores only some of its nodes."""
    points, candidates = np.arange(1, nodes + 1, dtype=np.float32)[np.newaxis], np.ones((1, nodes), np.bool_)

    best = select(points, candidates, HintSettings()).best[0]

    assert expected == (best >= 0).sum()
