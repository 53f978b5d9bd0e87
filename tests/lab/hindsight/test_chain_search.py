"""Chains of moves, which even out the loads where no pod can move alone."""

import msgspec
import numpy as np
from lab.traces import a_trace

from equipoise.lab.hindsight.chain_search import ChainSearch
from equipoise.lab.hindsight.placement_problem import PlacementProblem, placement_problem
from equipoise.lab.hindsight.placement_search import PlacementSearch
from equipoise.lab.hindsight.searched_placement import SearchedPlacement
from equipoise.lab.model.trace import AntiAffinity

PLACED = (0, 0, 1, 2, 3, 2)
MEMORY_MIB = (13_000, 18_500, 18_000, 15_000, 16_000, 100)
"""Of 32,768 on each node: only the fourth pod and the last one can move to another node, which is the last node. The
first and the fifth pod are those of DaemonSets."""

APART = AntiAffinity(beside=5, limited=1, most=0)
"""The second pod cannot be on the third node, because of the last pod."""


def full_nodes(*rules: AntiAffinity) -> PlacementProblem:
    """The two pods that use their cores are on the first node, and only the second can leave it."""
    busy, idle = (3_000.0,) * 96, (0.0,) * 96
    trace = a_trace(nodes=4, curves=(busy, busy, idle, idle, idle, idle), replicas=(1,) * 6, placed=PLACED, rules=rules)
    workloads = tuple(
        msgspec.structs.replace(
            workload, request_memory_mib=mib, kind="DaemonSet" if number in (0, 4) else workload.kind
        )
        for number, (workload, mib) in enumerate(zip(trace.workloads, MEMORY_MIB, strict=True))
    )
    return placement_problem(msgspec.structs.replace(trace, workloads=workloads))


def searched(problem: PlacementProblem, *, price: float = 0.0) -> SearchedPlacement:
    placement = SearchedPlacement(problem, problem.given)
    for _ in ChainSearch(placement, np.random.default_rng(1), exponent=2, price=price).advance(100):
        pass
    return placement


def test_a_pod_moves_where_the_pods_in_its_way_can_move() -> None:
    """Into the room of the third pod, which moves into that of the fourth one. No pod could move alone with a gain."""
    problem = full_nodes(APART)
    alone = SearchedPlacement(problem, problem.given)
    for _ in PlacementSearch(alone, np.random.default_rng(1), exponent=2, exchanges=False).advance(100):
        pass
    assert alone.node.tolist() == [*PLACED]
    assert searched(problem).node.tolist() == [0, 1, 2, 3, 3, 2]


def test_no_chain_is_made_that_gains_less_than_its_price() -> None:
    assert searched(full_nodes(APART), price=100.0).moved == 0


def test_anti_affinity_holds_at_each_place_of_a_chain() -> None:
    assert searched(full_nodes(APART, AntiAffinity(beside=5, limited=2, most=0))).moved == 0


def test_a_placement_after_many_chains_has_the_loads_of_its_pods() -> None:
    """And no node has more requests than it allows."""
    curves = tuple(tuple(500.0 + 100.0 * ((step + 7 * pod) % 13) for step in range(96)) for pod in range(12))
    trace = a_trace(
        nodes=4, curves=curves, replicas=(2,) * 12, placed=tuple(pod % 4 for pod in range(24)), memory_mib=4_000
    )
    placement = searched(placement_problem(trace))
    again = SearchedPlacement(placement.problem, placement.node)
    assert placement.moved
    np.testing.assert_allclose(placement.load, again.load)
    np.testing.assert_array_equal(placement.free, again.free)
    assert (placement.free >= 0).all()
