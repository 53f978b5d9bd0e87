"""The day of a workload, and what a node uses beyond its pods."""

import msgspec
from builders import GIB, NOW, a_node_utilization, a_workload

from equipoise.contracts.load.daily_profile import MIN_SLOTS, SLOTS, system_usage, workload_profile
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization


def a_told_workload(cpu: list[float | None], memory: list[float | None] | None = None) -> WorkloadUtilization:
    return WorkloadUtilization(
        workload=a_workload(), replicas=3, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={"5m": WindowUsage(sampled_at=NOW, mean=Resources(cpu=1.0, memory=GIB))},
        profile={"cpu": cpu, "memory": memory if memory is not None else [GIB] * SLOTS},
    )  # fmt: skip


def test_an_unknown_hour_is_the_mean_of_the_known_ones() -> None:
    """It neither makes a peak nor hides one."""
    day = workload_profile(a_told_workload([1.0, 3.0] * 11 + [None, None]))

    assert day is not None
    assert day[0].tolist() == [1.0, 3.0] * 11 + [2.0, 2.0]


def test_a_few_hours_are_no_day() -> None:
    """Then the workload is taken to use all day what it uses now."""
    known: list[float | None] = [1.0] * (MIN_SLOTS - 1)

    assert workload_profile(a_told_workload(known)) is None
    assert workload_profile(a_told_workload([*known, 1.0])) is not None
    assert workload_profile(a_told_workload([1.0] * SLOTS, [])) is None
    assert workload_profile(None) is None


def test_what_a_node_uses_beyond_its_pods_counts_all_day() -> None:
    """As told; where nobody tells, what its shortest window has more than all of its pods together, never below 0."""
    pods = {"one": Resources(cpu=1.0, memory=1.0), "two": Resources(cpu=0.5, memory=2.0)}
    silent = msgspec.structs.replace(a_node_utilization("a", 4.0, pods=pods), system=Resources())
    told = msgspec.structs.replace(silent, system=Resources(cpu=0.25, memory=8.0))
    more = {"three": Resources(cpu=9.0, memory=0.0)}

    assert [0.25, 8.0] == system_usage(told).tolist()
    assert 2.5 == system_usage(silent)[0]
    assert 0.0 == system_usage(msgspec.structs.replace(silent, pods=pods | more))[0]
