"""What a workload loses by the hint of another one, and when workloads of a namespace share hints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scorer.hinted import SETTINGS

from equipoise.contracts.hints.hints_object import MAX_BYTES, stored_hints
from equipoise.contracts.numeric import Flags, Singles
from equipoise.scorer.decisions.placement_hints.selection import Selection, select
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.placement_hints.sharing import bytes_of_hints, must_share, points_lost, space_for_hints
from equipoise.scorer.decisions.placement_hints.terms import workload_hint

NODES = 12
rows = st.tuples(
    arrays(np.float32, (2, NODES), elements=st.sampled_from([1.0, 20.0, 50.0, 99.0])), arrays(np.bool_, (2, NODES))
)


def selections(points: Singles, candidates: Flags) -> tuple[Selection, Selection]:
    """Those of both workloads."""
    selection = select(points, candidates, SETTINGS)
    return selection.part(slice(0, 1)), selection.part(slice(1, 2))


@given(rows)
def test_a_workload_loses_nothing_by_its_own_selection(table: tuple[Singles, Flags]) -> None:
    points, candidates = table
    own, _ = selections(points, candidates)

    assert points_lost(points[0], candidates[0], own, own) == pytest.approx([0.0], abs=1e-4)


def test_a_workload_loses_what_preferred_nodes_have_less() -> None:
    """By the grades of the offered selection; a node that its pods cannot use counts as one without points."""
    points = np.array([[90.0, 80.0, 70.0, 10.0, 11.0, 12.0], [10.0, 10.0, 10.0, 70.0, 80.0, 90.0]], np.float32)
    candidates = np.ones((2, 6), np.bool_)
    own, offered = selections(points, candidates)
    own = Selection(best=own.best, grades=own.grades, worst=np.full_like(own.worst, -1))
    expected = offered.grades[0] @ points[0][offered.best[0]] / offered.grades.sum()
    [lost] = points_lost(points[0], candidates[0], own, offered)
    candidates[0, 5] = False
    [more] = points_lost(points[0], candidates[0], own, offered)

    assert lost == pytest.approx(own.grades[0] @ points[0][own.best[0]] / own.grades.sum() - expected)
    assert more > lost


def test_a_workload_loses_what_avoided_nodes_have_more() -> None:
    points = np.array([[90.0, 80.0, 70.0, 2.0], [90.0, 80.0, 2.0, 70.0]], np.float32)
    candidates = np.ones((2, 4), np.bool_)
    own, offered = selections(points, candidates)
    offered = Selection(best=own.best, grades=own.grades, worst=offered.worst)

    assert [68.0] == points_lost(points[0], candidates[0], own, offered).tolist()


def test_a_selection_of_fewer_nodes_loses_points() -> None:
    """kube-scheduler may score none of them."""
    points = np.full((2, 6), 50.0, np.float32)
    candidates = np.ones((2, 6), np.bool_)
    candidates[1, 1:] = False
    own, offered = selections(points, candidates)

    assert points_lost(points[0], candidates[0], own, offered)[0] > 10.0


@pytest.mark.parametrize(
    ("nodes", "workloads", "expected"),
    [(50, 100, False), (100, 100, False), (500, 60, False), (500, 200, True), (5_000, 10, False), (5_000, 40, True)],
)
def test_workloads_share_hints_where_an_object_has_no_space_for_theirs(
    nodes: int, workloads: int, expected: bool
) -> None:
    assert expected == must_share(workloads, np.full(nodes, 44, np.intp), HintSettings())


@pytest.mark.parametrize(("workloads", "expected"), [(100, 56_940), (600, 34_440), (10_000, 30_720)])
def test_hints_have_the_space_that_the_names_of_workloads_leave(workloads: int, expected: int) -> None:
    """At least half of the object."""
    assert expected == space_for_hints(workloads)


@pytest.mark.parametrize("nodes", [100, 1_000])
def test_the_size_of_hints_is_estimated_like_the_stored_one(nodes: int) -> None:
    """For hints of a usual size, as large or up to half larger: what was decided to be shared has space."""
    settings = HintSettings()
    points = np.random.default_rng(1).uniform(1.0, 99.0, (20, nodes)).astype(np.float32)
    selection = select(points, np.ones((20, nodes), np.bool_), settings)
    hints = {}
    for row in range(20):
        best, worst = (columns[row][columns[row] >= 0] for columns in (selection.best, selection.worst))
        grades = selection.grades[row, : len(best)].tolist()
        hint = workload_hint([*map(str, best)], grades, map(str, worst), settings)
        assert hint is not None
        hints[f"Job.{row}"] = hint
    stored = stored_hints(hints, 2**20)

    assert MAX_BYTES > bytes_of_hints(selection).sum()
    assert 0.9 < bytes_of_hints(selection).sum() / sum(map(len, stored.distinct_hints)) < 1.5
