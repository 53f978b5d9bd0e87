"""Requests that are proposed from the measured usage."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.traces import a_trace

from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.model.trace import Trace
from equipoise.lab.resource_requests.measured_days import learned_and_judged, measured_hours
from equipoise.lab.resource_requests.proposals import RequestsProposal, lowered, proposals

STEPS = 96
BUSY = (*(100.0,) * 48, *(1_000.0,) * 16, *(100.0,) * 32)
"""Four hours of a day with one core, and a tenth of it in the others."""

HOLIDAY = (50.0,) * STEPS


def with_days(*days: Sequence[float], request: int = 4_000, memory: float = 1_000.0, **workload: object) -> Trace:
    curve = [value for day in days for value in day]
    trace = a_trace(curves=(curve,), replicas=(2,), request_cpu_milli=request, memory_mib=memory)
    return msgspec.structs.replace(
        trace, workloads=(msgspec.structs.replace(trace.workloads[0], request_memory_mib=4_000, **workload),)
    )


def with_gaps(trace: Trace, steps: Sequence[int]) -> Trace:
    """The trace as read from a folder in which these steps are empty: they are filled with the mean of the rest."""
    gaps = np.zeros((2, 1, trace.steps), dtype=np.bool_)
    gaps[:, :, list(steps)] = True
    known = ~gaps[0, 0]
    return msgspec.structs.replace(
        trace,
        cpu_milli=np.where(known, trace.cpu_milli, trace.cpu_milli[:, known].mean()),
        memory_mib=np.where(known, trace.memory_mib, trace.memory_mib[:, known].mean()),
        gaps=gaps,
    )


def proposal(trace: Trace) -> RequestsProposal:
    (found,) = proposals(trace)
    return found


def proposed(trace: Trace) -> tuple[int, int]:
    found = proposal(trace).proposed
    return found.cpu_milli, found.memory_mib


def test_cpu_is_that_of_the_second_highest_hour_and_memory_the_highest_both_with_a_margin() -> None:
    assert proposed(with_days(BUSY)) == (1_150, 1_150)


def test_one_hour_of_a_day_may_use_more_cpu_than_requested() -> None:
    spike = (*(100.0,) * 92, *(9_000.0,) * 4)
    assert proposed(with_days(spike))[0] == 115


@pytest.mark.parametrize("holidays", range(1, 7))
def test_holidays_in_a_week_lower_nothing(holidays: int) -> None:
    week = [BUSY] * (7 - holidays) + [HOLIDAY] * holidays
    assert proposed(with_days(*week)) == proposed(with_days(BUSY))


def test_a_request_between_the_usage_and_its_margin_stays() -> None:
    assert proposed(with_days(BUSY, request=1_000))[0] == 1_000
    assert proposed(with_days(BUSY, request=1_150))[0] == 1_150
    assert proposed(with_days(BUSY, request=999))[0] == 1_150


def test_gaps_at_the_busy_hours_of_every_day_lower_nothing_and_are_named() -> None:
    trace = with_gaps(with_days(BUSY, BUSY, BUSY), [96 * day + step for day in range(3) for step in range(48, 64)])
    assert proposed(trace) == (4_000, 4_000)
    assert proposal(trace).kept == "4 of 24 hours of the day are not measured on most days: nothing is lowered"


def test_a_gap_on_one_day_of_three_changes_nothing() -> None:
    trace = with_days(BUSY, BUSY, BUSY)
    assert proposed(with_gaps(trace, range(40, 70))) == proposed(trace)


def test_despite_gaps_a_request_below_the_measured_usage_is_raised() -> None:
    trace = with_gaps(with_days(BUSY, request=500), range(90, 96))
    assert proposed(trace) == (1_150, 4_000)


def test_a_workload_that_was_never_measured_keeps_its_requests_and_is_named() -> None:
    trace = with_days(BUSY)
    trace = msgspec.structs.replace(trace, gaps=np.ones((2, 1, STEPS), dtype=np.bool_))
    assert proposed(trace) == (4_000, 4_000)
    assert proposal(trace).kept == "not measured"


def test_memory_that_was_measured_while_cpu_was_not_counts() -> None:
    trace = with_days(BUSY, BUSY)
    gaps = np.zeros((2, 1, 2 * STEPS), dtype=np.bool_)
    gaps[0, 0, 10] = True
    memory = trace.memory_mib.copy()
    memory[0, 10] = 3_000.0
    assert proposed(msgspec.structs.replace(trace, gaps=gaps, memory_mib=memory))[1] == 3_450


def test_less_than_a_day_lowers_nothing() -> None:
    trace = with_days(BUSY).with_steps(np.arange(40))
    assert proposed(trace) == (4_000, 4_000)


def test_no_request_is_lowered_below_what_starts_or_below_the_floor() -> None:
    idle = (1.0,) * STEPS
    assert proposed(with_days(idle, memory=10.0)) == (25, 250)
    assert proposed(with_days(idle, memory=10.0, start_cpu_milli=300, start_memory_mib=700)) == (300, 700)
    assert proposed(with_days(idle, request=10))[0] == 10


def test_a_proposal_is_never_above_a_limit() -> None:
    trace = with_days(BUSY, request=500, limit_cpu_milli=1_050, limit_memory_mib=4_000)
    assert proposed(trace)[0] == 1_050


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ({"kind": "Pod"}, "pod without controller"),
        ({"kind": "Node"}, "static pod"),
        ({"limit_cpu_milli": 4_000, "limit_memory_mib": 4_000}, "Guaranteed"),
    ],
)
def test_requests_that_cannot_be_changed_stay_and_are_named(workload: dict[str, object], why: str) -> None:
    trace = with_days(BUSY, **workload)
    assert proposed(trace) == (4_000, 4_000)
    assert why in proposal(trace).kept


def test_no_pod_is_given_requests_that_no_node_has() -> None:
    """Nodes have 8 cores."""
    trace = with_days((7_500.0,) * STEPS)
    assert proposed(trace) == (4_000, 4_000)
    assert proposal(trace).kept.startswith("no node has as much")


@given(st.lists(st.lists(st.floats(0.0, 8_000.0), min_size=24, max_size=24), min_size=1, max_size=3), st.data())
def test_more_measured_days_never_lower_a_proposal_below_the_present_request_more(
    days: list[list[float]], data: st.DataObject
) -> None:
    """A day is lowered only by what all measured days allow; what is unknown never lowers."""
    curves = [[value for value in day for _ in range(4)] for day in days]
    whole = with_days(*curves, request=8_000)
    missing = data.draw(st.sets(st.integers(0, whole.steps - 1), max_size=20))
    found = proposal(with_gaps(whole, sorted(missing)) if len(missing) < whole.steps else whole)
    assert found.proposed.cpu_milli >= proposal(with_days(curves[0], request=8_000)).proposed.cpu_milli or missing
    hours = np.array(curves).reshape(len(days), 24, 4).mean(axis=2)
    if found.kept:
        assert not lowered(found.present, found.proposed)
    elif not missing:
        assert found.proposed.cpu_milli >= np.floor(np.sort(hours, axis=1)[:, -2].max())


def test_a_trace_of_several_days_is_judged_by_a_day_that_no_proposal_comes_from() -> None:
    days = learned_and_judged(with_days((10.0,) * STEPS, (20.0,) * STEPS, (30.0,) * STEPS, (40.0,) * STEPS))
    assert not days.in_sample
    assert days.learned.cpu_milli.max() == 30.0
    assert set(days.last_day.cpu_milli[0]) == {40.0}
    assert days.judged.cpu_milli[0, ::STEPS].tolist() == [20.0, 30.0, 40.0]


@pytest.mark.parametrize(("days", "replayed"), [(1, [10.0, 10.0, 10.0]), (2, [10.0, 10.0, 20.0])])
def test_the_replay_of_a_short_trace_measures_its_last_day(days: int, replayed: list[float]) -> None:
    found = learned_and_judged(with_days(*[(10.0 * (day + 1),) * STEPS for day in range(days)]))
    assert found.judged.cpu_milli[0, ::STEPS].tolist() == replayed
    assert found.in_sample == (days == 1)


@pytest.mark.parametrize("seconds_per_step", [300.0, 900.0, 2_400.0, 3_600.0, 7_200.0])
def test_hours_do_not_depend_on_the_length_of_steps(seconds_per_step: float) -> None:
    steps = round(86_400 / seconds_per_step)
    trace = msgspec.structs.replace(with_days((500.0,) * steps), seconds_per_step=seconds_per_step)
    assert measured_hours(trace, 0).tolist() == [[[pytest.approx(500.0)] * 24]]


def test_lowered_means_that_one_request_is_lower() -> None:
    present = ResourceRequests(cpu_milli=100, memory_mib=100)
    assert lowered(present, ResourceRequests(cpu_milli=200, memory_mib=99))
    assert not lowered(present, present)
