"""How many nodes fewer would do."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from lab.report.test_report import some_figures
from lab.traces import a_trace

from equipoise.lab.capacity.fewer_nodes import cases, most_removed, nodes_needed, replays_at_most
from equipoise.lab.compare import ComparisonRequest
from equipoise.lab.model.node_removal import with_fewer_nodes
from equipoise.lab.model.resource_requests import RequestsVariant, ResourceRequests
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import Run, RunFigures
from equipoise.lab.runners import on_processes

REQUEST = ComparisonRequest(scenarios=("churn",), policies=("profile",), descheduler=(False,))
IDLE = (100.0,) * 96


class Replays:
    """Nodes are above 80 % for 5 hours, and for 10 more hours with each removed node; by the policy 25 hours less."""

    def __init__(self, unplaced_from: int = 1_000) -> None:
        self.unplaced_from = unplaced_from
        self.plans: list[ReplayPlan] = []

    def __call__(self, trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
        for number, plan in enumerate(plans):
            self.plans.append(plan)
            hours = 5.0 + 10.0 * plan.removed_nodes - (25.0 if plan.policy == "profile" else 0.0)
            figures = some_figures(
                plan.policy,
                scenario=plan.scenario,
                nodes=len(trace.nodes) - plan.removed_nodes,
                hours_above_80=max(0.0, hours),
                unplaced=1 if plan.removed_nodes >= self.unplaced_from else 0,
            )
            yield number, Run(figures=figures, node_names=(), before=[], after=[], spread=())  # type: ignore[arg-type]


def search(replays: Replays, *, time_left: bool = True) -> dict[str, tuple[int | None, int | None, str]]:
    """By policy: nodes needed, the next smaller size, and why that is too small."""
    trace = a_trace(nodes=16, curves=(IDLE,), replicas=(16,))
    found = nodes_needed(
        trace, cases(REQUEST, Settings()), replays, time_left=lambda: time_left, on_replay=lambda figures: None
    )
    return {each.policy: (each.needed, each.next_smaller, each.limited_by) for each in found}


def test_the_smallest_cluster_has_no_more_hours_above_80_than_the_stock_scheduler_on_the_present_one() -> None:
    assert search(Replays()) == {"stock": (16, 15, "hours"), "profile": (14, 13, "hours")}


def test_a_smaller_cluster_without_room_for_all_requests_is_too_small() -> None:
    assert search(Replays(unplaced_from=2))["profile"] == (15, 14, "requests")


def test_without_time_left_only_the_present_cluster_is_known_to_do() -> None:
    replays = Replays()
    assert search(replays, time_left=False) == {"stock": (16, None, ""), "profile": (16, None, "")}
    assert {plan.removed_nodes for plan in replays.plans} == {0}


def test_all_sizes_are_replayed_with_the_same_seeds_and_no_more_often_than_announced() -> None:
    replays, trace = Replays(), a_trace(nodes=16, curves=(IDLE,), replicas=(16,))
    search(replays)
    assert {plan.seed for plan in replays.plans} == {1}
    assert len(replays.plans) <= replays_at_most(trace, cases(REQUEST, Settings()))


def test_never_so_many_nodes_are_removed_that_requests_exceed_the_capacity() -> None:
    """16 nodes of 8 cores; 60 cores are requested."""
    assert most_removed(a_trace(nodes=16, curves=(IDLE,), replicas=(120,))) == 8


def test_the_mix_of_nodes_stays_the_same_and_no_removed_node_comes_back() -> None:
    trace = a_trace(nodes=12, curves=(IDLE,), replicas=(12,), placed=range(12), tainted=range(4))
    kept = [with_fewer_nodes(trace, removed) for removed in range(12)]
    assert [sum(bool(node.taints) for node in each.nodes) for each in (kept[0], kept[3], kept[6])] == [4, 3, 2]
    for larger, smaller in pairwise(kept):
        assert {node.name for node in smaller.nodes} < {node.name for node in larger.nodes}


@pytest.mark.parametrize("of_kind", [{"zone": "a"}, {"region": "a"}, {"extended_resources": {"nvidia.com/gpu": 1}}])
def test_nodes_of_every_zone_and_with_every_device_lose_the_same_share(of_kind: dict[str, Any]) -> None:
    """Here the nodes of one kind are those that would be kept if all were of the same kind."""
    trace = a_trace(nodes=12, curves=(IDLE,), replicas=(1,))
    kept = with_fewer_nodes(trace, 6).nodes
    nodes = [msgspec.structs.replace(node, **(of_kind if node in kept else {})) for node in trace.nodes]
    smaller = with_fewer_nodes(msgspec.structs.replace(trace, nodes=tuple(nodes)), 6).nodes
    assert sum(msgspec.structs.replace(node, **of_kind) == node for node in smaller) == 3


def test_pods_of_removed_nodes_are_scheduled_again() -> None:
    trace = a_trace(nodes=4, curves=(IDLE,), replicas=(4,), placed=range(4))
    plan = ReplayPlan(scenario="given", policy="stock", removed_nodes=2)
    ((_, run),) = on_processes(1)(trace, [plan])
    assert (run.figures.nodes, run.figures.pods, run.figures.unplaced) == (2, 4, 0)


@pytest.mark.parametrize(("policies", "expected"), [((), "profile"), (("water_level",), "water_level")])
def test_the_configured_policy_is_compared_with_the_stock_scheduler_unless_others_are_named(
    policies: tuple[str, ...], expected: str
) -> None:
    request = ComparisonRequest(scenarios=("churn",), policies=policies)
    found = [(plans[0].policy, plans[0].descheduler) for plans in cases(request, Settings())]
    assert found == [("stock", False), (expected, False), (expected, True)]


def test_the_search_with_moves_begins_at_the_answer_without_them() -> None:
    """Here moves change nothing: one replay confirms the answer, and one with a node less is too few."""
    replays, trace = Replays(), a_trace(nodes=16, curves=(IDLE,), replicas=(16,))
    request = msgspec.structs.replace(REQUEST, descheduler=(False, True))

    found = nodes_needed(
        trace, cases(request, Settings()), replays, time_left=lambda: True, on_replay=lambda figures: None
    )

    assert [(each.policy, each.descheduler, each.needed) for each in found] == [
        ("stock", False, 16),
        ("profile", False, 14),
        ("profile", True, 14),
    ]
    assert [plan.removed_nodes for plan in replays.plans if plan.descheduler] == [2, 3]


def test_hours_above_80_limit_nothing_if_no_usage_was_measured() -> None:
    """Then usage is assumed to equal the requests."""
    trace = a_trace(nodes=16, curves=(IDLE,), replicas=(16,))
    trace = msgspec.structs.replace(trace, gaps=np.ones((2, 1, 96), dtype=np.bool_))

    found = nodes_needed(
        trace,
        cases(REQUEST, Settings()),
        Replays(unplaced_from=7),
        time_left=lambda: True,
        on_replay=lambda figures: None,
    )

    assert [(each.needed, each.limited_by) for each in found] == [(10, "requests"), (10, "requests")]


def test_several_sizes_are_replayed_at_a_time_if_that_many_replays_run_in_parallel() -> None:
    rounds: list[int] = []

    class Rounds(Replays):
        def __call__(self, trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
            rounds.append(len(plans))
            return super().__call__(trace, plans)

    found = nodes_needed(
        a_trace(nodes=16, curves=(IDLE,), replicas=(16,)),
        cases(REQUEST, Settings()),
        Rounds(),
        time_left=lambda: True,
        on_replay=lambda figures: None,
        parallel=4,
    )
    assert [each.needed for each in found] == [16, 14]
    assert rounds[0] == 2
    assert max(rounds) == 4


def test_the_limits_are_those_of_the_present_requests_whatever_requests_are_replayed() -> None:
    """With less CPU requested, more nodes can be removed; recommended requests are not replayed with moves."""
    trace = a_trace(nodes=16, curves=(IDLE,), replicas=(16,), request_cpu_milli=7_600)
    lower = (ResourceRequests(cpu_milli=100, memory_mib=1),)
    variants = (
        RequestsVariant(),
        RequestsVariant(name="proposed", requests=lower),
        RequestsVariant(name="recommended", requests=lower),
    )
    request = msgspec.structs.replace(REQUEST, descheduler=(False, True))
    compared = cases(request, Settings(), variants)
    found = nodes_needed(trace, compared, Replays(), time_left=lambda: True, on_replay=lambda figures: None)

    needed = {(each.policy, each.descheduler, each.requests): each.needed for each in found}
    assert needed == {
        ("stock", False, "present"): 16,
        ("stock", False, "proposed"): 16,
        ("stock", False, "recommended"): 16,
        ("profile", False, "present"): 16,
        ("profile", False, "proposed"): 14,
        ("profile", False, "recommended"): 14,
        ("profile", True, "present"): 16,
        ("profile", True, "proposed"): 14,
    }
    assert {each.allowed_hours_above_80 for each in found} == {5.0}


def test_a_policy_that_is_worse_on_the_present_cluster_needs_more_nodes() -> None:
    class Worse(Replays):
        def __call__(self, trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
            for number, run in super().__call__(trace, plans):
                yield number, _with_hours(run, 99.0) if run.figures.policy == "profile" else run

    assert search(Worse())["profile"] == (None, 16, "hours")


def _with_hours(run: Run, hours: float) -> Run:
    figures: RunFigures = some_figures(run.figures.policy, scenario="churn", nodes=16, hours_above_80=hours)
    return Run(figures=figures, node_names=(), before=run.before, after=run.after, spread=())
