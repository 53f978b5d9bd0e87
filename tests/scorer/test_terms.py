"""The terms of a hint."""

from scorer.hinted import SETTINGS

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
    assert hint_for_replacements(None, [], [], SETTINGS) is None


def test_a_replacement_has_a_hint_also_if_its_workload_has_none() -> None:
    """The intended target, and the node that the evicted pod left."""
    hint = hint_for_replacements(None, ["target"], ["left"], SETTINGS)

    assert hint is not None
    assert [(100, ("target",))] == [(term.weight, term.hostnames) for term in hint.prefer]
    assert hint.avoid is not None
    assert ("left",) == hint.avoid.hostnames


def test_a_node_that_a_pod_left_is_no_target_of_another_one() -> None:
    """Two evictions that cross: the nodes would exchange their pods."""
    hint = hint_for_replacements(None, ["a", "b"], ["a"], SETTINGS)

    assert hint is not None
    assert [("b",)] == [term.hostnames for term in hint.prefer]
