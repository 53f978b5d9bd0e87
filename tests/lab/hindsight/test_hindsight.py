"""How even the load could be with hindsight."""

import numpy as np
import pytest
from lab.traces import a_trace

from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.lab.hindsight.first_placement import first_placement
from equipoise.lab.hindsight.hindsight_answer import (
    HindsightAnswer,
    HindsightRequest,
    HindsightSearch,
    least_spreads,
)
from equipoise.lab.hindsight.placement_problem import measured_days, placement_problem
from equipoise.lab.hindsight.placement_search import EXPONENTS, PlacementSearch
from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.trace import AntiAffinity, Trace, TraceSpreadConstraint, TraceWorkload
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan
from equipoise.lab.report.hindsight_table import hindsight_notes, hindsight_rows

DAY, NIGHT = (3_000.0,) * 48 + (500.0,) * 48, (500.0,) * 48 + (3_000.0,) * 48
ONE_KIND_PER_NODE = a_trace(nodes=2, curves=(DAY, NIGHT), replicas=(2, 2), placed=(0, 0, 1, 1))
"""Both pods that use their cores by day are on one node, and both that use them at night on the other."""


def changed(trace: Trace, **fields: object) -> Trace:
    return Trace(**{name: getattr(trace, name) for name in trace.__struct_fields__} | fields)


def answer(trace: Trace, *, time_left: bool = True) -> HindsightAnswer:
    search = HindsightSearch(trace, HindsightRequest(steps=50), lambda: time_left)
    assert len(list(search.advance())) <= search.rounds_at_most
    return search.result()


def searched(trace: Trace, *, price: float = 0.0) -> SearchedPlacement:
    """The placement of the trace after a search."""
    problem = placement_problem(trace)
    placement = SearchedPlacement(problem, problem.given)
    for exponent in EXPONENTS:
        for _ in PlacementSearch(placement, np.random.default_rng(1), exponent=exponent, price=price).advance(200):
            pass
    return placement


def test_pods_that_use_their_cores_at_other_times_are_placed_together() -> None:
    found = answer(ONE_KIND_PER_NODE)
    of_trace, *_, from_scratch = found.placements
    assert (of_trace.start, of_trace.moved, of_trace.median_spread) == ("trace", 0, 62.5)
    assert (from_scratch.start, from_scratch.median_spread, from_scratch.unplaced) == ("scratch", 0.0, 0)
    assert found.complete
    assert len(hindsight_notes(found)) == 1


def test_evictions_do_not_exchange_two_pods() -> None:
    """Both nodes have room for two pods, but not for three."""
    found = answer(changed(ONE_KIND_PER_NODE, workloads=tuple(_with_memory(ONE_KIND_PER_NODE, 14_000))))
    exchanged = [each.median_spread for each in found.placements if each.moved and each.exchanges]
    evicted = [each for each in found.placements if not each.exchanges]
    assert 0.0 in exchanged
    assert evicted
    assert {0} == {each.moved for each in evicted}


def test_rows_name_the_pods_that_evictions_can_move() -> None:
    """With room for a third pod, both nodes get the same load by two moves."""
    found = answer(changed(ONE_KIND_PER_NODE, workloads=tuple(_with_memory(ONE_KIND_PER_NODE, 10_000))))
    assert "that of the trace, pods evicted" in {row[0] for row in hindsight_rows(found).rows}
    assert min(each.median_spread for each in found.placements if not each.exchanges) == 0.0


def _with_memory(trace: Trace, mib: int) -> list[TraceWorkload]:
    return [type(each)(name=each.name, request_memory_mib=mib) for each in trace.workloads]


def test_no_pod_moves_that_gains_less_than_the_price() -> None:
    assert searched(ONE_KIND_PER_NODE, price=1.0).moved == 2
    assert searched(ONE_KIND_PER_NODE, price=1_000.0).moved == 0


def test_requests_always_have_room() -> None:
    """32,768 MiB of a node: each exchange of a pod by day for one by night would exceed it on one of both nodes."""
    trace = a_trace(nodes=2, curves=(DAY, DAY, NIGHT), replicas=(1, 1, 2), placed=(0, 0, 1, 1))
    memory = (25_000, 5_000, 16_000)
    workloads = tuple(
        type(each)(name=each.name, request_memory_mib=mib) for each, mib in zip(trace.workloads, memory, strict=True)
    )
    assert searched(trace).spreads == (0.0, 0.0)
    assert searched(changed(trace, workloads=workloads)).moved == 0


def test_anti_affinity_of_the_trace_holds() -> None:
    """The spread would be 0 if pods of both workloads shared a node."""
    rules = (AntiAffinity(beside=0, limited=1, most=0), AntiAffinity(beside=1, limited=0, most=0))
    trace = changed(ONE_KIND_PER_NODE, rules=rules)
    assert searched(trace).spreads == (62.5, 62.5)
    problem = placement_problem(trace)
    first = first_placement(problem)
    assert not set(first[problem.workload == 0].tolist()) & set(first[problem.workload == 1].tolist()) - {-1}


def test_a_node_with_a_taint_takes_no_pod() -> None:
    trace = a_trace(nodes=3, curves=(DAY, NIGHT), replicas=(2, 2), placed=(0, 0, 1, 1), tainted=(2,))
    assert not (searched(trace).node == 2).any()
    assert not (first_placement(placement_problem(trace)) == 2).any()


def test_pods_with_a_topology_spread_constraint_stay_in_their_domain() -> None:
    constraint = TraceSpreadConstraint(topology_key=HOSTNAME)
    workloads = [type(each)(name=each.name, topology_spread=(constraint,)) for each in ONE_KIND_PER_NODE.workloads]
    assert searched(changed(ONE_KIND_PER_NODE, workloads=tuple(workloads))).moved == 0


def test_pods_of_a_daemon_set_stay_on_their_node() -> None:
    workloads = [type(each)(name=each.name, kind="DaemonSet") for each in ONE_KIND_PER_NODE.workloads]
    trace = changed(ONE_KIND_PER_NODE, workloads=tuple(workloads))
    assert searched(trace).moved == 0
    assert first_placement(placement_problem(trace)).tolist() == [0, 0, 1, 1]


def test_a_placement_after_many_moves_has_the_loads_of_its_pods() -> None:
    curves = tuple(tuple(500.0 + 100.0 * ((step + 7 * pod) % 13) for step in range(96)) for pod in range(12))
    trace = a_trace(nodes=4, curves=curves, replicas=(2,) * 12, placed=tuple(pod % 4 for pod in range(24)))
    placement = searched(trace)
    again = SearchedPlacement(placement.problem, placement.node)
    np.testing.assert_allclose(placement.load, again.load)
    np.testing.assert_array_equal(placement.free, again.free)
    np.testing.assert_array_equal(placement.excluded, again.excluded)


def test_the_figures_of_the_placement_of_a_trace_are_those_of_its_replay() -> None:
    of_trace = answer(ONE_KIND_PER_NODE).placements[0]
    replayed = Replay(ONE_KIND_PER_NODE, ReplayPlan(scenario="given", policy="stock")).run().figures
    assert of_trace.peak_spread == replayed.peak_spread
    assert of_trace.median_spread == replayed.median_spread
    assert of_trace.hours_above_80 == replayed.hours_above_80


def test_the_lower_bound_is_what_the_largest_pod_adds_to_the_mean() -> None:
    """A pod of 6 of 8 cores, and two idle nodes: 75 % beside 25 %."""
    trace = a_trace(nodes=3, curves=((6_000.0,) * 96,), replicas=(1,), placed=(0,))
    assert least_spreads(placement_problem(trace)) == pytest.approx(50.0)
    found = answer(trace)
    assert found.least_median_spread == 50.0
    assert "below 50.0 in the peak hour" in hindsight_notes(found)[1]
    assert all(each.median_spread >= 50.0 for each in found.placements)


def test_the_days_after_the_first_two_are_measured() -> None:
    days = [value for day in range(4) for value in (1_000.0 * day,) * 96]
    measured = measured_days(a_trace(nodes=1, curves=(days,), replicas=(1,), placed=(0,)))
    assert sorted(set(measured.cpu_milli[0].tolist())) == [2_000.0, 3_000.0]
    two_days = measured_days(a_trace(nodes=1, curves=(days[:192],), replicas=(1,), placed=(0,)))
    assert set(two_days.cpu_milli[0].tolist()) == {0.0}


def test_without_time_there_is_an_answer_and_a_note() -> None:
    found = answer(ONE_KIND_PER_NODE, time_left=False)
    assert not found.complete
    assert [each.start for each in found.placements] == ["trace", "scratch"]
    assert "not enough" in hindsight_notes(found)[-1]


def test_a_trace_without_placement_has_no_moves() -> None:
    found = answer(a_trace(nodes=2, curves=(DAY, NIGHT), replicas=(2, 2)))
    assert [each.moved for each in found.placements] == [None]
    assert hindsight_rows(found).rows[0][:3] == ("all pods placed anew", "", "")


def test_pods_without_a_node_are_counted() -> None:
    trace = a_trace(nodes=2, curves=(DAY,), replicas=(5,), memory_mib=15_000.0)
    assert answer(trace).placements[-1].unplaced == 1
