"""The terms of a hint."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from scorer.hinted import SETTINGS

from equipoise.contracts.hints.definition import MAX_TERMS
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.placement_hints.terms import hint_for_replacements, workload_hint


@st.composite
def graded(draw: st.DrawFn) -> tuple[list[int], HintSettings]:
    """Grades of nodes, the highest first, and settings with that many grades."""
    settings = HintSettings(terms=draw(st.integers(1, 6)), preferred_weight=draw(st.integers(32, 100)))
    grades = draw(st.lists(st.integers(1, settings.grades), min_size=1, max_size=10))
    return sorted(grades, reverse=True), settings


@given(graded=graded())
def test_the_sum_of_the_terms_is_higher_for_a_higher_grade(graded: tuple[list[int], HintSettings]) -> None:
    """And the same for the same grade. Each node is in at least one term; no term is empty."""
    grades, settings = graded
    names = [f"node-{number}" for number in range(len(grades))]
    hint = workload_hint(names, grades, [], settings)

    assert hint is not None
    assert len(hint.prefer) <= settings.terms
    assert all(term.hostnames for term in hint.prefer)
    weights = [hint.weights[name] for name in names]
    assert min(weights) > 0
    for grade, weight in zip(grades, weights, strict=True):
        assert [other > grade for other in grades] == [other > weight for other in weights]


def test_the_best_node_is_the_first_of_the_first_term() -> None:
    hint = workload_hint(["a", "b", "c"], [3, 2, 1], ["d"], SETTINGS)

    assert hint is not None
    assert [(32, ("a", "b")), (16, ("a", "c"))] == [(term.weight, term.hostnames) for term in hint.prefer]


def test_a_hostname_that_two_nodes_have_counts_once() -> None:
    """At its best place."""
    hint = workload_hint(["a", "a", "b", "c"], [3, 2, 1, 1], ["d", "a"], SETTINGS)

    assert hint is not None
    assert [("a",), ("a", "b", "c")] == [term.hostnames for term in hint.prefer]
    assert hint.avoid is not None
    assert ("d",) == hint.avoid.hostnames


def test_without_nodes_there_is_no_hint() -> None:
    """An empty hint would replace nothing."""
    assert workload_hint([], [], [], SETTINGS) is None
    assert hint_for_replacements(None, [], [], [], SETTINGS) is None


def test_a_replacement_has_a_hint_also_if_its_workload_has_none() -> None:
    """The intended target, and the node that the evicted pod left."""
    hint = hint_for_replacements(None, ["target"], [], ["left"], SETTINGS)

    assert hint is not None
    assert [(100, ("target",))] == [(term.weight, term.hostnames) for term in hint.prefer]
    assert hint.avoid is not None
    assert ("left",) == hint.avoid.hostnames


def test_a_target_has_the_highest_weight_of_all() -> None:
    """The other nodes remain, with lower weights, in no more terms than an object may have."""
    settings = msgspec.structs.replace(SETTINGS, terms=6, preferred_weight=100)
    names = [f"node-{grade}" for grade in range(settings.grades, 0, -1)]
    hint = workload_hint(names, range(settings.grades, 0, -1), [], settings)
    led = hint_for_replacements(hint, ["node-1"], ["node-2"], [], settings)

    assert led is not None
    assert ["node-1", "node-2"] == [name for name, _ in led.weights.most_common(2)]
    assert {*names} == {*led.weights}
    assert len(led.prefer) <= MAX_TERMS


def test_a_node_that_a_pod_left_is_no_target_of_another_one() -> None:
    """Two evictions that cross: the nodes would exchange their pods."""
    hint = hint_for_replacements(None, ["a", "b"], ["c"], ["a", "c"], SETTINGS)

    assert hint is not None
    assert [("b",)] == [term.hostnames for term in hint.prefer]


def test_beside_a_target_other_nodes_count_little() -> None:
    """Others that may be the target come second. kube-scheduler scales the weights if no target is feasible."""
    before = workload_hint(["a", "b", "c"], [3, 2, 1], ["d"], SETTINGS)
    hint = hint_for_replacements(before, ["target"], ["b", "target"], [], SETTINGS)

    assert hint is not None
    assert {"target": 100, "b": 80, "a": 5, "c": 2, "d": -1} == hint.weights


def test_without_a_target_there_are_no_other_ones() -> None:
    """The replacement was placed; only the node that the pod left is still avoided."""
    before = workload_hint(["a", "b", "c"], [3, 2, 1], ["d"], SETTINGS)
    hint = hint_for_replacements(before, [], ["b"], ["a"], SETTINGS)

    assert hint is not None
    assert {"b": 32, "c": 16, "a": -8, "d": -8} == hint.weights
