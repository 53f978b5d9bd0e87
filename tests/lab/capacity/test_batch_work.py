"""How much batch work fits beside a trace, of CPU and memory."""

import numpy as np
import pytest
from lab.traces import a_trace

from equipoise.lab.capacity.batch_work import BatchCapacity, BatchRequest, BatchSimulation
from equipoise.lab.model.batch_demand import NodeDays, remaining_of_idle
from equipoise.lab.model.node_days import cluster_days
from equipoise.lab.model.trace import Trace

NIGHT_AND_DAY = (1_000.0,) * 48 + (4_000.0,) * 48


def answer(trace: Trace, request: BatchRequest = BatchRequest(thresholds=(0.65,))) -> BatchCapacity:  # noqa: B008
    simulation = BatchSimulation(trace, request)
    assert list(simulation.advance()) == list(range(1, simulation.hours + 1))
    return simulation.result()


def test_memory_limits_batch_work_where_less_of_it_is_idle() -> None:
    """8 cores and 32 GiB a node; 1 GiB of memory is below the threshold, a batch pod requests 2 GiB."""
    found = answer(a_trace(nodes=2, curves=((1_000.0,) * 96,), replicas=(2,), placed=(0, 1), memory_mib=20_000.0))
    by_resources = {each.resources: each.running for each in found.work if each.rule == "last_day" and each.usual}
    assert by_resources["cpu",] > 0.3
    assert by_resources["cpu", "memory"] == 0.0


def test_every_rule_has_an_answer_for_every_threshold() -> None:
    trace = a_trace(nodes=2, curves=(NIGHT_AND_DAY,), replicas=(2,), placed=(0, 1))
    found = answer(trace, BatchRequest(thresholds=(0.5, 0.8), frontier=0.65))
    usual = {(each.resources, each.threshold, each.rule) for each in found.work if each.usual}
    assert len(usual) == 2 * 3 * 3
    assert {each.threshold for each in found.idle} == {0.5, 0.65, 0.8}


def test_what_lasts_is_suppressed_less_than_what_is_idle_now() -> None:
    found = answer(a_trace(nodes=4, curves=(NIGHT_AND_DAY,), replicas=(4,), placed=range(4)))
    suppressed = {each.rule: each.suppressed for each in found.work if each.usual and each.resources == ("cpu",)}
    assert suppressed["lasting"] < suppressed["now"]


def test_what_is_idle_at_night_is_not_there_in_the_day() -> None:
    """4 of 8 cores are idle for half a day, none in the other half."""
    day = np.where(np.arange(96) < 48, 1.0, 5.0)
    days = NodeDays(usage=np.tile(day, (1, 4)), capacity=np.array([8.0]), measured_from=96, measured_until=192, pod=1.0)
    found = remaining_of_idle(days, threshold=5.0 / 8.0, hours=(1, 6, 24, 96))
    assert found.offered == pytest.approx(0.25)
    assert found.after == {1: pytest.approx(44 / 48), 6: pytest.approx(24 / 48), 24: 0.0}


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_usage_is_averaged_over_quarter_hours_for_every_length_of_steps(minutes: int) -> None:
    steps = 7 * 24 * 60 // minutes
    curve = tuple(1_000.0 + 10.0 * step for step in range(steps))
    trace = a_trace(nodes=1, curves=(curve,), replicas=(1,), placed=(0,))
    trace = Trace(
        **{name: getattr(trace, name) for name in trace.__struct_fields__} | {"seconds_per_step": minutes * 60.0}
    )
    days = cluster_days(trace, pod_cores=1.0, pod_memory=1.0)
    assert not days.in_sample
    assert days.cpu.usage.shape == (1, 7 * 96)
    assert days.cpu.usage.mean() == pytest.approx(np.mean(curve) / 1_000.0)
    assert (np.diff(days.cpu.usage) >= -1e-9).all()


def test_less_than_a_day_is_repeated_to_a_day() -> None:
    days = cluster_days(
        a_trace(nodes=1, curves=((2_000.0,) * 20,), replicas=(1,), placed=(0,)), pod_cores=1.0, pod_memory=1.0
    )
    assert days.in_sample
    assert days.cpu.typical is not None
    assert days.cpu.typical == pytest.approx(2.0)


def test_pods_without_a_node_count_only_if_no_pod_has_one() -> None:
    placed = a_trace(nodes=2, curves=((2_000.0,) * 96,), replicas=(2,))
    days = cluster_days(placed, pod_cores=1.0, pod_memory=1.0)
    assert days.cpu.capacity.tolist() == [8.0, 8.0]
