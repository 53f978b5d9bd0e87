"""Scheduling cycles of kube-scheduler."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from lab.placed_pods import a_template, some_nodes

from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.plugins import FitScore
from equipoise.lab.model.stock.pod_template import PodTemplate
from equipoise.lab.model.stock.scheduler import SimulatedExtender, StockScheduler, feasible_nodes_to_find
from equipoise.lab.model.trace import TraceNode, TraceTaint


@pytest.mark.parametrize(
    ("nodes", "found"), [(99, 99), (100, 100), (240, 117), (1_000, 420), (2_000, 680), (5_000, 500), (15_000, 750)]
)
def test_the_searched_share_is_smaller_in_larger_clusters(nodes: int, found: int) -> None:
    assert found == feasible_nodes_to_find(nodes)


@pytest.mark.parametrize(("percentage", "found"), [(1, 100), (20, 200), (100, 1_000)])
def test_the_searched_share_is_the_configured_one_and_at_least_a_hundred_nodes(percentage: int, found: int) -> None:
    scheduler = StockScheduler(percentage_of_nodes_to_score=percentage)

    assert found == len(scheduler.candidates(Placements(some_nodes(1_000)), a_template()))


def test_each_search_starts_where_the_previous_one_ended() -> None:
    """At the first feasible node above the limit, and continues with the first node after the last."""
    placements = Placements(some_nodes(300))
    placements.cordoned[50:150] = True
    scheduler = StockScheduler()
    count = feasible_nodes_to_find(300)
    feasible = [*range(50), *range(150, 300)]

    first, second = (scheduler.candidates(placements, a_template()).tolist() for _ in range(2))

    assert 144 == count
    assert feasible[:count] == first
    assert (feasible * 2)[count : 2 * count] == second
    assert (feasible * 2)[2 * count % 200] == scheduler.next_start


def test_the_next_search_starts_after_infeasible_nodes() -> None:
    """The search examines them to find one more feasible node."""
    placements = Placements(some_nodes(300))
    placements.cordoned[144:151] = True
    scheduler = StockScheduler()

    scheduler.candidates(placements, a_template())

    assert 151 == scheduler.next_start


def test_a_search_of_all_nodes_does_not_change_the_start() -> None:
    """It examines every node once."""
    placements = Placements(some_nodes(300))
    scheduler = StockScheduler()
    scheduler.candidates(placements, a_template())
    placements.cordoned[20:280] = True
    start = scheduler.next_start

    found = scheduler.candidates(placements, a_template())

    assert [*range(280, 300), *range(20)] == found.tolist()
    assert start == scheduler.next_start


def test_the_total_score_is_the_weighted_sum_of_the_plugins() -> None:
    """LeastAllocated + BalancedAllocation + 3 × TaintToleration + 2 × PodTopologySpread, computed by hand.

    With the pod (1 core, 2 GiB of 4 cores, 8 GiB): node 0 has 75 % free and its balance does not change; node 1, with a
    sibling and another pod of 1 core, has 25 % and 50 % free, and the difference of CPU and memory remains 1/8.
    Raw spread scores: 2 and round(ln 4 + 2) = 3. Only node 1 is tainted.
    """
    nodes = some_nodes(2)
    tainted = TraceNode(
        name="t", cpu_milli=4_000, memory_mib=8_192, taints=(TraceTaint(key="a", effect="PreferNoSchedule"),)
    )
    placements = Placements([nodes[0], tainted])
    template = a_template(cpu_milli=1_000, memory_mib=2_048)
    placements.place(template, 1)
    placements.place(a_template(1, cpu_milli=1_000, memory_mib=0), 1)

    total = StockScheduler().scores(placements, template, np.array([1, 0]))

    assert [37 + 75 + 3 * 0 + 2 * 66, 75 + 75 + 3 * 100 + 2 * 100] == total.tolist()


def test_plugins_that_skip_a_pod_add_nothing_to_its_score() -> None:
    """A pod that is not spread and has requests of 0."""
    placements = Placements(some_nodes(2))
    template = PodTemplate(workload=0, cpu_milli=0, memory=0, spread=False)

    assert [100 + 300] * 2 == StockScheduler().scores(placements, template, np.array([0, 1])).tolist()


def test_most_allocated_prefers_the_fuller_node() -> None:
    placements = Placements(some_nodes(2))
    placements.place(a_template(1, cpu_milli=1_000, memory_mib=2_048), 1)

    least, most = (
        StockScheduler(FitScore(strategy=strategy)).schedule(placements, a_template(), random.Random(0))
        for strategy in ("LeastAllocated", "MostAllocated")
    )

    assert (0, 1) == (least, most)


def an_extender(scores: Any, *, weight: int = 1, max_score: int = 10) -> tuple[SimulatedExtender, list[list[int]]]:
    """An extender that returns these scores, and the nodes of each request that it receives."""
    requests: list[list[int]] = []

    def respond(rows: Any) -> Any:
        requests.append(rows.tolist())
        return scores

    return SimulatedExtender(scores=respond, weight=weight, max_score=max_score), requests


def test_a_pod_without_feasible_nodes_is_not_scheduled() -> None:
    """The extender is not called."""
    extender, requests = an_extender([])

    node = StockScheduler().schedule(Placements(some_nodes(2)), a_template(cpu_milli=5_000), random.Random(0), extender)

    assert node is None
    assert not requests


def test_a_single_candidate_is_selected_without_calling_the_extender() -> None:
    placements = Placements(some_nodes(3))
    placements.cordoned[[0, 2]] = True
    extender, requests = an_extender([0])

    assert 1 == StockScheduler().schedule(placements, a_template(), random.Random(0), extender)
    assert not requests


def test_without_an_extender_the_first_of_equal_candidates_is_selected() -> None:
    """Without using the generator."""
    generator = random.Random(0)
    before = generator.getstate()

    assert 0 == StockScheduler().schedule(Placements(some_nodes(9)), a_template(), generator)
    assert before == generator.getstate()


@pytest.mark.parametrize("generator", [random.Random(1), np.random.default_rng(1)], ids=["python", "numpy"])
def test_with_an_extender_one_of_the_best_candidates_is_selected_at_random(generator: Any) -> None:
    """With a uniform distribution."""
    extender, requests = an_extender([5, 5, 0, 5])
    placements = Placements(some_nodes(4))

    found = Counter(StockScheduler().schedule(placements, a_template(), generator, extender) for _ in range(600))

    assert {0, 1, 3} == found.keys()
    assert all(140 < count < 260 for count in found.values())
    assert [[0, 1, 2, 3]] * 600 == requests


def test_a_failed_request_to_the_extender_is_ignored() -> None:
    extender, _ = an_extender(None)
    placements = Placements(some_nodes(9))

    assert {0} == {StockScheduler().schedule(placements, a_template(), random.Random(n), extender) for n in range(9)}


@pytest.mark.parametrize(
    ("score", "weight", "max_score", "node"),
    [(3, 1, 10, 0), (4, 1, 10, 1), (1, 3, 10, 0), (1, 4, 10, 1), (36, 1, 100, 0), (38, 1, 100, 1)],
)
def test_extender_scores_are_multiplied_by_weight_and_scaled_to_100(
    score: int, weight: int, max_score: int, node: int
) -> None:
    """Without the extender, node 1 has 37 points less."""
    placements = Placements(some_nodes(2))
    placements.place(a_template(1, cpu_milli=3_000, memory_mib=0), 1)
    template = a_template(cpu_milli=400, memory_mib=819)
    extender, _ = an_extender([0, score], weight=weight, max_score=max_score)

    higher, lower = StockScheduler().scores(placements, template, np.array([0, 1]))

    assert 37 == higher - lower
    assert node == StockScheduler().schedule(placements, template, random.Random(0), extender)
