"""The forecasts of many nodes are computed at once: each is the sum of its own pods."""

import random
from typing import Any

import numpy as np
import pytest
from builders import GIB, a_node_utilization, a_workload
from descheduler.cluster_states import EVERY_HOUR

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.state.daily_usage import (
    BatchWork,
    NodeDay,
    NodePods,
    RunningPod,
    UsageForecast,
    node_days,
)

SYSTEM = Resources(cpu=0.5, memory=GIB)
UNTIL_SIX = np.arange(SLOTS) < 6


def test_the_forecast_of_a_node_is_the_sum_of_its_pods() -> None:
    """Profiles, constant usage, and nothing for pods of unknown usage. A node without utilization has no forecast."""
    chance = random.Random(1)
    workloads = [a_workload(name=f"app-{number}") for number in range(40)]
    days = {
        workload: np.array([[chance.random() for _ in range(SLOTS)], [GIB * chance.random() for _ in range(SLOTS)]])
        for workload in workloads[:30]
    }
    profiles = {workload: DailyProfile(usage=day, measured=EVERY_HOUR) for workload, day in days.items()}
    usages = {f"pod-{number}": Resources(cpu=chance.random(), memory=GIB) for number in range(50)}
    utilization = a_node_utilization(system=SYSTEM)

    def usage_of(uid: str, _: Workload | None) -> Resources:
        return usages.get(uid, Resources(cpu=1.0))

    nodes: list[list[RunningPod] | None] = []
    for _ in range(700):
        pods: list[RunningPod] = [
            (f"pod-{chance.randrange(60)}", chance.choice([None, *workloads])) for _ in range(chance.randrange(6))
        ]
        nodes.append(chance.choice([pods, pods, pods, [], None]))
    found = [
        day.usage
        for day in node_days(
            profiles.get,
            [None if pods is None else NodePods(utilization, pods, usage_of, usages) for pods in nodes],
            hour=0,
        )
    ]

    for place, expected in enumerate(nodes):
        if expected is None:
            assert np.isnan(found[place]).all()
            continue
        total = np.repeat([[0.5], [GIB]], SLOTS, axis=1)
        for uid, workload in expected:
            if workload in days:
                total = total + days[workload]
            elif uid in usages:
                total = total + np.array([[usages[uid].cpu], [usages[uid].memory]])
        assert found[place].ravel().tolist() == pytest.approx(total.ravel().tolist())


def test_of_batch_work_only_its_weight_counts_in_a_forecast() -> None:
    """With and without a profile; other pods of its workload count in full."""
    profiled, constant = a_workload(name="profiled"), a_workload(name="constant")
    day = np.array([np.full(SLOTS, 2.0), np.full(SLOTS, 4 * GIB)])
    profiles = {profiled: DailyProfile(usage=day, measured=EVERY_HOUR)}
    pods: list[RunningPod] = [("batch-1", profiled), ("batch-2", constant), ("other", profiled)]
    batch_work = BatchWork({"batch-1", "batch-2"}, BatchWorkWeight(cpu=0.25, memory=0.5))
    measured = {uid: Resources(cpu=1.0, memory=2 * GIB) for uid, _ in pods}
    node = NodePods(
        a_node_utilization(system=Resources(cpu=0.5, memory=GIB)), pods, lambda uid, _: measured[uid], measured
    )

    [found] = node_days(profiles.get, [node], batch_work, hour=0)

    assert found.usage[:, 0].tolist() == pytest.approx([0.5 + 0.5 + 0.25 + 2.0, GIB * (1 + 2 + 1 + 4)])


def measured_hours(
    profiles: dict[Workload, DailyProfile],
    pods: list[RunningPod],
    usages: dict[str, Resources],
    *,
    batch_work: BatchWork | None = None,
    system: Resources = SYSTEM,
) -> list[int]:
    """The measured hours of a node with these pods."""
    measured = AS_THEIR_DAY | usages
    node = NodePods(a_node_utilization(system=system), pods, lambda uid, _: usages.get(uid, Resources()), measured)
    [found] = node_days(profiles.get, [node], batch_work, hour=0)
    return list(np.flatnonzero(found.measured))


def a_profile(cpu: float, measured: Any = EVERY_HOUR, memory: float = 1.0) -> DailyProfile:
    """The same usage in every hour."""
    return DailyProfile(usage=np.array([np.full(SLOTS, cpu), np.full(SLOTS, memory * GIB)]), measured=measured)


AS_THEIR_DAY = dict.fromkeys(("old", "1", "2"), Resources(cpu=100.0, memory=100 * GIB))
"""Pods that use no less than their day."""

OLD, NEW = a_workload(name="old"), a_workload(name="new")
HOURS = list(range(SLOTS))


@pytest.mark.parametrize(
    ("new_cores", "hours"), [(0.9, HOURS), (1.0, HOURS), (1.1, [])], ids=["18 %", "exactly 20 %", "21 %"]
)
def test_an_hour_is_measured_if_80_percent_of_the_usage_of_the_pods_was(new_cores: float, hours: list[int]) -> None:
    """The usage of a pod without a profile is an assumption; the system outside the pods does not count."""
    usages = {"new": Resources(cpu=new_cores, memory=0.0)}

    found = measured_hours(
        {OLD: a_profile(4.0)}, [("old", OLD), ("new", NEW)], usages, system=Resources(cpu=10.0, memory=GIB)
    )

    assert found == hours


def test_an_hour_is_measured_only_if_every_resource_was() -> None:
    """One pod of the new workload has most of the memory and hardly any CPU."""
    usages = {"new": Resources(cpu=0.01, memory=8 * GIB)}

    assert measured_hours({OLD: a_profile(4.0)}, [("old", OLD), ("new", NEW)], usages) == []


def test_the_hours_that_fill_a_partial_profile_are_not_measured() -> None:
    """They have the mean of the known hours."""
    partial = a_profile(4.0, measured=UNTIL_SIX)

    assert measured_hours({OLD: partial}, [("old", OLD)], {}) == list(range(6))
    assert measured_hours({OLD: partial, NEW: a_profile(40.0, memory=9.0)}, [("1", OLD), ("2", NEW)], {}) == HOURS


def test_hours_count_as_measured_before_a_workload_has_a_profile() -> None:
    """Five measured hours are too few for one."""
    few = DailyProfile(usage=None, measured=np.arange(SLOTS) < 5)

    assert measured_hours({NEW: few}, [("1", NEW)], {"1": Resources(cpu=1.0, memory=GIB)}) == list(range(5))


def test_a_node_without_pods_is_measured() -> None:
    """It is a target from its first hour."""
    assert measured_hours({}, [], {}) == HOURS


def test_a_pod_of_unknown_usage_may_be_all_that_a_node_uses_outside_its_known_pods() -> None:
    """Its usage is part of that."""
    pods: list[RunningPod] = [("old", OLD), ("unknown", NEW)]

    assert measured_hours({OLD: a_profile(4.0, memory=8.0)}, pods, {}) == HOURS
    assert measured_hours({OLD: a_profile(4.0, memory=8.0)}, pods, {}, system=Resources(cpu=2.0, memory=GIB)) == []


def test_of_batch_work_only_its_weight_counts_as_unmeasured() -> None:
    """The forecast counts it in the same way."""
    batch_work = BatchWork({"new"}, BatchWorkWeight(cpu=0.2, memory=0.0))
    usages = {"new": Resources(cpu=4.0, memory=4 * GIB)}
    pods: list[RunningPod] = [("old", OLD), ("new", NEW)]

    assert measured_hours({OLD: a_profile(4.0)}, pods, usages, batch_work=batch_work) == HOURS
    assert measured_hours({OLD: a_profile(4.0)}, pods, usages) == []


def test_a_pod_is_measured_in_the_hours_of_its_workload() -> None:
    """One without a workload in none."""
    forecast = UsageForecast({OLD: a_profile(4.0, measured=UNTIL_SIX)}.get, lambda _: [])

    assert list(np.flatnonzero(forecast.measured_hours_of_pod(OLD))) == list(range(6))
    assert not forecast.measured_hours_of_pod(NEW).any()
    assert not forecast.measured_hours_of_pod(None).any()


def day_of(
    profiles: dict[Workload, DailyProfile], pods: list[RunningPod], measured: dict[str, Resources], hour: int = 0
) -> NodeDay:
    """The day of a node with these pods, which uses half a core outside them."""
    node = NodePods(a_node_utilization(system=SYSTEM), pods, lambda uid, _: measured.get(uid, Resources()), measured)
    [found] = node_days(profiles.get, [node], hour=hour)
    return found


def test_a_pod_that_was_never_measured_counts_only_for_what_may_be_moved_to_its_node() -> None:
    """With the whole day of its workload, or with what is expected of it. It may never run."""
    profiles, pods = {OLD: a_profile(2.0)}, [("old", OLD), ("pending", OLD), ("idle", OLD)]
    found = day_of(profiles, pods, {"old": Resources(cpu=2.0, memory=GIB), "idle": Resources(cpu=0.0, memory=0.0)})

    assert found.usage[0].tolist() == pytest.approx([6.5] * SLOTS)
    assert found.explained[0].tolist() == pytest.approx([2.5] * SLOTS)


def test_no_hour_of_a_pod_is_explained_beyond_four_times_its_present_usage() -> None:
    """An idle replica of a busy workload may stay idle, also in the hours in which its workload is busy."""
    profile = DailyProfile(usage=np.array([np.where(UNTIL_SIX, 0.1, 3.0), np.full(SLOTS, GIB)]), measured=EVERY_HOUR)
    found = day_of({OLD: profile}, [("idle", OLD)], {"idle": Resources(cpu=0.1, memory=GIB)}, hour=2)

    assert found.usage[0, [2, 12]].tolist() == pytest.approx([0.6, 3.5])
    assert found.explained[0, [2, 12]].tolist() == pytest.approx([0.6, 0.9])


def test_the_days_of_pods_that_use_less_than_them_are_reduced_in_proportion() -> None:
    """In the present hour, their sum is what the pods use. Pods above their day make up for others."""
    profile = DailyProfile(usage=np.array([np.where(UNTIL_SIX, 1.0, 3.0), np.full(SLOTS, GIB)]), measured=EVERY_HOUR)
    pods: list[RunningPod] = [("one", OLD), ("two", OLD)]

    def explained(*cores: float) -> list[float]:
        measured = {uid: Resources(cpu=each, memory=GIB) for (uid, _), each in zip(pods, cores, strict=True)}
        hours: list[float] = day_of({OLD: profile}, pods, measured, hour=12).explained[0, [2, 12]].tolist()
        return hours

    assert explained(2.0, 1.0) == pytest.approx([0.5 + 1.0, 0.5 + 3.0])
    assert explained(2.0, 4.0) == pytest.approx([0.5 + 2.0, 0.5 + 6.0])


def test_pods_that_were_never_measured_make_no_hour_measured() -> None:
    """With the day of their workload, the usage of a pod without a profile would be a small share of the node's."""
    usages = {"new": Resources(cpu=2.0, memory=GIB)}
    pods: list[RunningPod] = [("old", OLD), ("new", NEW)]

    assert measured_hours({OLD: a_profile(4.0)}, pods, usages) == []
    assert measured_hours({OLD: a_profile(4.0)}, [*pods, *[(f"pending-{i}", OLD) for i in range(9)]], usages) == []


def test_a_pod_leaves_with_its_part_of_what_is_explained() -> None:
    """Else a node would count as relieved of load that it never had."""
    profile = a_profile(2.0)
    pods: list[RunningPod] = [("one", OLD), ("two", OLD)]
    usage = Resources(cpu=1.0, memory=GIB)
    node = NodePods(a_node_utilization(system=SYSTEM), pods, lambda *_: usage, {uid: usage for uid, _ in pods})
    forecast = UsageForecast({OLD: profile}.get, lambda names: [node for _ in names])

    part = forecast.explained_of_pod(OLD, usage, "node-a")

    assert part is not None
    assert part[0].tolist() == pytest.approx([1.0] * SLOTS)
    assert forecast.explained_of_nodes(["node-a"])[0, 0].tolist() == pytest.approx([2.5] * SLOTS)
    assert forecast.explained_of_pod(NEW, usage, "node-a") == pytest.approx(np.array([[1.0], [GIB]]))
