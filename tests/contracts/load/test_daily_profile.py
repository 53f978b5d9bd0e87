"""The daily profile of a workload, and a node's usage outside its pods."""

import msgspec
from builders import GIB, NOW, a_node_utilization, a_workload

from equipoise.contracts.load.daily_profile import MIN_SLOTS, SLOTS, daily_profile, system_usage, workload_profile
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources


def a_measured_workload(cpu: list[float | None], memory: list[float | None] | None = None) -> WorkloadUtilization:
    return WorkloadUtilization(
        workload=a_workload(), replicas=3, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={"5m": WindowUsage(sampled_at=NOW, mean=Resources(cpu=1.0, memory=GIB))},
        profile={"cpu": cpu, "memory": memory if memory is not None else [GIB] * SLOTS},
    )  # fmt: skip


def test_an_unknown_hour_gets_the_mean_of_the_known_ones() -> None:
    """It neither adds nor hides a peak."""
    day = workload_profile(a_measured_workload([1.0, 3.0] * 11 + [None, None]))

    assert day is not None
    assert day[0].tolist() == [1.0, 3.0] * 11 + [2.0, 2.0]


def test_a_few_known_hours_are_no_profile() -> None:
    """The usage of the workload counts as constant."""
    known: list[float | None] = [1.0] * (MIN_SLOTS - 1)

    assert workload_profile(a_measured_workload(known)) is None
    assert workload_profile(a_measured_workload([*known, 1.0])) is not None
    assert workload_profile(a_measured_workload([1.0] * SLOTS, [])) is None
    assert workload_profile(None) is None


def test_an_hour_is_measured_if_both_resources_are() -> None:
    """With and without a profile; an hour of NaN or a negative amount is not."""
    cpu: list[float | None] = [1.0] * 12 + [None] * 11 + [float("nan")]
    memory: list[float | None] = [None] + [GIB] * 22 + [-1.0]

    partial = daily_profile(a_measured_workload(cpu, memory))
    few = daily_profile(a_measured_workload([1.0] * 3))

    assert partial.usage is not None
    assert partial.measured.tolist() == [False] + [True] * 11 + [False] * 12
    assert few.usage is None
    assert few.measured.tolist() == [True] * 3 + [False] * 21
    assert daily_profile(a_measured_workload([1.0] * SLOTS)).measured.all()


def test_system_usage_is_published_or_the_rest_of_the_shortest_window() -> None:
    """The node's mean minus the sum of its pods, never below 0."""
    pods = {"one": Resources(cpu=1.0, memory=1.0), "two": Resources(cpu=0.5, memory=2.0)}
    silent = msgspec.structs.replace(a_node_utilization("a", 4.0, pods=pods), system=Resources())
    published = msgspec.structs.replace(silent, system=Resources(cpu=0.25, memory=8.0))
    more = {"three": Resources(cpu=9.0, memory=0.0)}

    assert [0.25, 8.0] == system_usage(published).tolist()
    assert 2.5 == system_usage(silent)[0]
    assert 0.0 == system_usage(msgspec.structs.replace(silent, pods=pods | more))[0]
