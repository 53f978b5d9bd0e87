"""The terms of a hint."""

import msgspec
from scorer.hinted import SETTINGS

from equipoise.contracts.hints.definition import MAX_TERMS
from equipoise.scorer.decisions.placement_hints.settings import TermSettings
from equipoise.scorer.decisions.placement_hints.terms import hint_for_replacements, workload_hint


def test_a_hostname_that_two_nodes_have_counts_once() -> None:
    """At its best place."""
    hint = workload_hint(["a", "a", "b", "c"], ["d", "a"], SETTINGS)

    assert hint is not None
    assert [("a",), ("b", "c")] == [term.hostnames for term in hint.prefer]
    assert hint.avoid is not None
    assert ("d",) == hint.avoid.hostnames


def test_without_nodes_there_is_no_hint() -> None:
    """An empty hint would replace nothing."""
    assert workload_hint([], [], SETTINGS) is None
    assert hint_for_replacements(None, [], [], [], SETTINGS) is None


def test_a_replacement_has_a_hint_also_if_its_workload_has_none() -> None:
    """The intended target, and the node that the evicted pod left."""
    hint = hint_for_replacements(None, ["target"], [], ["left"], SETTINGS)

    assert hint is not None
    assert [(100, ("target",))] == [(term.weight, term.hostnames) for term in hint.prefer]
    assert hint.avoid is not None
    assert ("left",) == hint.avoid.hostnames


def test_with_a_target_there_are_no_more_terms_than_an_object_may_have() -> None:
    """The API server would refuse the hints of the whole namespace. The target takes the place of the last term."""
    nodes = [f"node-{number}" for number in range(MAX_TERMS)]
    settings = msgspec.structs.replace(SETTINGS, terms=(TermSettings(weight=50, nodes=1),) * MAX_TERMS)
    hint = hint_for_replacements(workload_hint(nodes, [], settings), ["target"], [], [], settings)

    assert hint is not None
    assert ["target", *nodes[:-1]] == [name for term in hint.prefer for name in term.hostnames]
    assert len(hint.prefer) == MAX_TERMS


def test_a_node_that_a_pod_left_is_no_target_of_another_one() -> None:
    """Two evictions that cross: the nodes would exchange their pods."""
    hint = hint_for_replacements(None, ["a", "b"], ["c"], ["a", "c"], SETTINGS)

    assert hint is not None
    assert [("b",)] == [term.hostnames for term in hint.prefer]


def test_beside_a_target_other_nodes_count_little() -> None:
    """Others that may be the target come second. kube-scheduler scales the weights if no target is feasible."""
    before = workload_hint(["a", "b", "c"], ["d"], SETTINGS)
    hint = hint_for_replacements(before, ["target"], ["b", "target"], [], SETTINGS)

    assert hint is not None
    terms = [*hint.prefer, *([hint.avoid] if hint.avoid else [])]
    assert [(100, ("target",)), (80, ("b",)), (5, ("a",)), (2, ("c",)), (5, ("d",))] == [
        (term.weight, term.hostnames) for term in terms
    ]


def test_without_a_target_there_are_no_other_ones() -> None:
    """The replacement was placed; only the node that the pod left is still avoided."""
    before = workload_hint(["a", "b", "c"], ["d"], SETTINGS)
    hint = hint_for_replacements(before, [], ["b"], ["a"], SETTINGS)

    assert hint is not None
    assert [(25, ("b", "c"))] == [(term.weight, term.hostnames) for term in hint.prefer]
