"""Priorities in replays: which pods give way, and that nobody else does."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from lab.traces import a_trace

from equipoise.lab.formats import TraceError, folder, load_trace
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan
from equipoise.lab.report.table import shown_columns
from equipoise.lab.results import STOCK, Run
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

BUSY, IDLE = (2_000.0,) * 96, (100.0,) * 96


def a_full_cluster(priority: int, policy: str = "PreemptLowerPriority") -> Trace:
    """Two nodes of eight cores. Two pods of low priority request four cores each, on one node; the third pod eight."""
    trace = a_trace(
        nodes=2, curves=(IDLE, BUSY, IDLE), replicas=(2, 1, 1), placed=(0, 0, 1, 1), request_cpu_milli=4_000
    )
    low, other, high = trace.workloads
    high = msgspec.structs.replace(high, priority=priority, preemption_policy=policy)
    pods = (*trace.pods[:3], msgspec.structs.replace(trace.pods[3], node=""))
    other = msgspec.structs.replace(other, request_cpu_milli=8_000, priority=1_000)
    return msgspec.structs.replace(trace, workloads=(low, other, high), pods=pods)


def replayed(trace: Trace) -> Run:
    return Replay(trace, ReplayPlan(scenario="given", policy=STOCK)).run()


def test_a_pod_of_higher_priority_takes_the_place_of_another() -> None:
    """One victim is enough, which then waits; the pod of a thousand stays."""
    figures = replayed(a_full_cluster(10)).figures

    assert (1, 1) == (figures.preempted, figures.unplaced)


@pytest.mark.parametrize(("priority", "policy"), [(0, "PreemptLowerPriority"), (10, "Never")])
def test_without_a_higher_priority_or_with_the_policy_never_nobody_is_preempted(priority: int, policy: str) -> None:
    figures = replayed(a_full_cluster(priority, policy)).figures

    assert (0, 1) == (figures.preempted, figures.unplaced)


def test_pods_that_arrive_late_preempt_only_as_many_as_they_need() -> None:
    """Eight pods fill the cluster. Of any order of arrival, those of high priority are placed in the end."""
    trace = a_trace(nodes=2, curves=(IDLE, IDLE), replicas=(4, 3), request_cpu_milli=4_000)
    low, high = trace.workloads
    trace = msgspec.structs.replace(trace, workloads=(low, msgspec.structs.replace(high, priority=5)))
    preempted = Counter[int]()
    for seed in range(6):
        figures = Replay(trace, ReplayPlan(scenario="fresh", policy=STOCK, seed=seed)).run().figures
        assert 3 == figures.unplaced
        preempted[figures.preempted] += 1

    assert max(preempted) <= 3
    assert preempted.keys() - {0}


def test_pods_are_preempted_before_equipoise_measures_anything() -> None:
    """While pods without a node get one. The victim is scheduled again, without scores of Equipoise."""
    trace = a_trace(
        nodes=3, curves=(IDLE, BUSY, IDLE), replicas=(1, 2, 1), placed=(0, 1, 2, 0), request_cpu_milli=4_000
    )
    low, other, high = trace.workloads
    other = msgspec.structs.replace(other, priority=1_000)
    high = msgspec.structs.replace(high, priority=10, request_cpu_milli=8_000)
    pods = (*trace.pods[:3], msgspec.structs.replace(trace.pods[3], node=""))
    scoring = SINGLE_POLICIES["profile"]()
    trace = msgspec.structs.replace(trace, workloads=(low, other, high), pods=pods)
    figures = Replay(trace, ReplayPlan(scenario="given", policy="profile", scoring=scoring)).run().figures

    assert (1, 0) == (figures.preempted, figures.unplaced)


def test_the_number_of_preempted_pods_is_a_column_if_there_are_any() -> None:
    names = [
        [column.name for column in shown_columns([replayed(a_full_cluster(priority)).figures])] for priority in (0, 10)
    ]

    assert ["preempted" in each for each in names] == [False, True]


def test_priorities_are_written_and_read(tmp_path: Path) -> None:
    """Also negative ones."""
    trace = a_full_cluster(-7, "Never")
    folder.write(trace, tmp_path)

    assert trace.workloads == load_trace(tmp_path).workloads


def test_an_unknown_policy_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    folder.write(a_full_cluster(1, "Sometimes"), tmp_path)

    with pytest.raises(TraceError, match="write Never or PreemptLowerPriority"):
        load_trace(tmp_path)
