"""Which annotated profiles are used."""

from collections.abc import Mapping
from typing import Any

import pytest
from builders import GIB, NOW, a_workload_utilization

from equipoise.collector.decisions.restored_profile import (
    MAX_AGE,
    largest_capacity,
    restore_problem,
    restored_profile,
)
from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.kubernetes.annotations import USAGE, as_annotations, workload_usage
from equipoise.contracts.messages.values.resources import Resources

CAPACITY = Resources(cpu=10.0, memory=64 * GIB)
CPU: list[float | None] = [0.1 * hour for hour in range(23)]
DAY: dict[str, list[float | None]] = {"cpu": [*CPU, None], "memory": [*[GIB] * 23, None]}


def annotations_with(sampled_at: float = NOW, **fields: Any) -> Mapping[str, str]:
    """As the annotator writes it."""
    usage = workload_usage(a_workload_utilization(sampled_at=sampled_at, **({"profile": DAY} | fields)))
    assert usage is not None
    return as_annotations(usage)


def test_an_annotated_profile_is_restored() -> None:
    """Slot by slot, in cores and bytes per replica, to four digits; unknown slots stay unknown."""
    profile, why = restored_profile(annotations_with(), NOW, CAPACITY)

    assert profile is not None
    assert "" == why
    assert [pytest.approx(value) for value in CPU] == [slot.cpu for slot in profile[:23]]
    assert [pytest.approx(GIB, rel=1e-3)] * 23 == [slot.memory for slot in profile[:23]]
    assert Resources() == profile[23]


def test_a_resource_may_be_missing() -> None:
    """The other one is restored."""
    profile, _ = restored_profile(annotations_with(profile={"cpu": DAY["cpu"]}), NOW, CAPACITY)

    assert profile is not None
    assert Resources(cpu=pytest.approx(0.5)) == profile[5]


@pytest.mark.parametrize(
    ("age", "accepted"), [(MAX_AGE, True), (MAX_AGE + 1, False), (-CLOCK_TOLERANCE, True), (-60, False)]
)
def test_a_profile_expires(age: float, accepted: bool) -> None:
    """After two weeks. One from the future is invalid."""
    profile, why = restored_profile(annotations_with(NOW - age), NOW, CAPACITY)

    assert accepted == (profile is not None)
    assert accepted == (why == "")


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({}, "absent"),
        ({USAGE: "{"}, "cannot be parsed"),
        (annotations_with(profile={}), "no profile"),
        ({USAGE: annotations_with()[USAGE].replace("null", "-1", 1)}, "invalid amount"),
        ({USAGE: annotations_with()[USAGE].replace("null", "11", 1)}, "cpu: 11 per replica is more than any node has"),
        (annotations_with(profile={"gpu": DAY["cpu"]}), "no profile"),
    ],
)
def test_an_invalid_profile_is_not_used(annotations: Mapping[str, str], reason: str) -> None:
    """Anyone who may edit a workload can write it: the reason is returned."""
    profile, why = restored_profile(annotations, NOW, CAPACITY)

    assert profile is None
    assert reason in why


def test_the_largest_capacity_is_found_per_resource() -> None:
    """An unknown capacity is no limit."""
    nodes = [Resources(cpu=4.0, memory=None), Resources(cpu=2.0, memory=GIB)]

    assert Resources(cpu=4.0, memory=GIB) == largest_capacity(nodes)
    assert Resources() == largest_capacity([])
    assert restored_profile(annotations_with(), NOW, largest_capacity([]))[0] is not None


def test_the_problem_lists_forbidden_resources_and_errors() -> None:
    """Resources by their names in a ClusterRole; None without any problem."""
    assert restore_problem([], []) is None
    rights = restore_problem(["deployments.apps", "rollouts.argoproj.io"], [])
    assert rights is not None
    assert "forbidden to list deployments.apps, rollouts.argoproj.io: apply k8s/base/collector.yaml" in rights
    assert "500 Broken" in (restore_problem([], ["500 Broken: list deployments"]) or "")
