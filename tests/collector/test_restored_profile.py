"""What is believed of a day that stands on a workload."""

from collections.abc import Mapping
from typing import Any

import pytest
from builders import GIB, NOW, a_workload_utilization

from equipoise.collector.decisions.restored_profile import (
    MAX_AGE,
    MAX_AHEAD,
    largest_capacity,
    restore_problem,
    restored_profile,
)
from equipoise.contracts.kubernetes.annotations import USAGE, as_annotations, workload_usage
from equipoise.contracts.messages.resources import Resources

CAPACITY = Resources(cpu=10.0, memory=64 * GIB)
CPU: list[float | None] = [0.1 * hour for hour in range(23)]
DAY: dict[str, list[float | None]] = {"cpu": [*CPU, None], "memory": [*[GIB] * 23, None]}


def standing(sampled_at: float = NOW, **fields: Any) -> Mapping[str, str]:
    """As the annotator writes it."""
    usage = workload_usage(a_workload_utilization(sampled_at=sampled_at, **({"profile": DAY} | fields)))
    assert usage is not None
    return as_annotations(usage)


def test_a_day_is_read_as_it_was_written() -> None:
    """Slot by slot, in cores and bytes per replica, to four digits; what was unknown is."""
    day, why = restored_profile(standing(), NOW, CAPACITY)

    assert day is not None
    assert "" == why
    assert [pytest.approx(value) for value in CPU] == [slot.cpu for slot in day[:23]]
    assert [pytest.approx(GIB, rel=1e-3)] * 23 == [slot.memory for slot in day[:23]]
    assert Resources() == day[23]


def test_a_resource_may_be_missing() -> None:
    """What is known of the other is of use."""
    day, _ = restored_profile(standing(profile={"cpu": DAY["cpu"]}), NOW, CAPACITY)

    assert day is not None
    assert Resources(cpu=pytest.approx(0.5)) == day[5]


@pytest.mark.parametrize(("age", "believed"), [(MAX_AGE, True), (MAX_AGE + 1, False), (-MAX_AHEAD, True), (-60, False)])
def test_a_day_has_its_time(age: float, believed: bool) -> None:
    """Two weeks later it says nothing any more; one of tomorrow is a forgery."""
    day, why = restored_profile(standing(NOW - age), NOW, CAPACITY)

    assert believed == (day is not None)
    assert believed == (why == "")


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({}, "not there"),
        ({USAGE: "{"}, "cannot be read"),
        (standing(profile={}), "no profile"),
        ({USAGE: standing()[USAGE].replace("null", "-1", 1)}, "no amount"),
        ({USAGE: standing()[USAGE].replace("null", "11", 1)}, "cpu: 11 per replica is more than any node has"),
        (standing(profile={"gpu": DAY["cpu"]}), "no profile"),
    ],
)
def test_what_is_not_believed(annotations: Mapping[str, str], reason: str) -> None:
    """Anybody who may edit a workload may write there: it says why it is left."""
    day, why = restored_profile(annotations, NOW, CAPACITY)

    assert day is None
    assert reason in why


def test_the_most_that_a_node_has() -> None:
    """Per resource, of whichever node; a capacity that is unknown limits nothing."""
    nodes = [Resources(cpu=4.0, memory=None), Resources(cpu=2.0, memory=GIB)]

    assert Resources(cpu=4.0, memory=GIB) == largest_capacity(nodes)
    assert Resources() == largest_capacity([])
    assert restored_profile(standing(), NOW, largest_capacity([]))[0] is not None


def test_what_was_not_read_says_what_to_do() -> None:
    """Rights together, by their names in a ClusterRole; other errors as they are; nothing when there is nothing."""
    assert restore_problem([], []) is None
    rights = restore_problem(["deployments.apps", "rollouts.argoproj.io"], [])
    assert rights is not None
    assert "forbidden to list deployments.apps, rollouts.argoproj.io: apply k8s/base/collector.yaml" in rights
    assert "500 Broken" in (restore_problem([], ["500 Broken: list deployments"]) or "")
