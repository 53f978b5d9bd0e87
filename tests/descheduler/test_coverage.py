"""Pods are moved only when the load of enough nodes is known."""

from typing import Any

from builders import NOW
from descheduler.snapshots import LOAD

from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.descheduler.decisions.evaluation.coverage import coverage_problem


def a_cycle(**fields: Any) -> UtilizationCycle:
    return UtilizationCycle(**({"shard": "all", "cycle": 1, "expected": 10, "fresh": 10, "queried_at": NOW} | fields))


def test_four_fifths_of_the_expected_nodes_are_needed() -> None:
    """Counted now, whatever number the collector published before it stopped."""
    assert coverage_problem([a_cycle()], 8, LOAD) == ""
    assert coverage_problem([a_cycle()], 7, LOAD) == "load is known of 7 of 10 nodes, 70% of 80% needed"
    assert coverage_problem([a_cycle(), a_cycle(shard="b")], 8, LOAD)


def test_a_collector_without_data_is_a_problem() -> None:
    """The text says why."""
    assert "no message of the collector yet" in coverage_problem([], 10, LOAD)
    assert "expects no node" in coverage_problem([a_cycle(expected=0)], 10, LOAD)
    assert "Prometheus is down" in coverage_problem([a_cycle(problem="Prometheus is down")], 0, LOAD)


def test_a_clock_that_differs_too_much_is_a_problem() -> None:
    """Of all shards the largest difference counts."""
    assert "clock differs by -11.0 s" in coverage_problem([a_cycle(skew=3.0), a_cycle(skew=-11.0)], 20, LOAD)
