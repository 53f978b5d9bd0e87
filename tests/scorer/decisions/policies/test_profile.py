"""profile: levels the load of the next 24 hours."""

import msgspec
import numpy as np
from scorer.clusters import a_demand, daily_loads, evenly, node_loads

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes
from equipoise.scorer.decisions.policies.profile import ProfilePolicy, ProfileWeights

DAY = np.where(np.arange(SLOTS) < 12, 1.0, 0.0)
"""Usage in the first half of the day only."""

NIGHT = 1.0 - DAY


def nodes_with(cpu: list[Array], memory: list[Array] | None = None, now: list[float] | None = None) -> CandidateNodes:
    """Nodes of 100 cores and bytes with these daily loads, as shares; `now` is the current load in percent."""
    share = np.array([*zip(cpu, memory or [np.full(SLOTS, 0.3)] * len(cpu), strict=True)])
    nodes = node_loads(evenly(now or [50.0] * len(cpu)))
    return msgspec.structs.replace(nodes, daily=daily_loads(share, share))


def test_a_pod_goes_to_the_node_that_is_busy_at_other_hours() -> None:
    """Although that node has the higher load now, and their daily means are equal."""
    nodes = nodes_with([0.8 * DAY, 0.8 * NIGHT], now=[80.0, 0.0])
    demand = msgspec.structs.replace(a_demand(10.0), daily=np.array([10.0 * NIGHT, np.full(SLOTS, 10.0)]))

    busy_by_day, busy_by_night = ProfilePolicy().score(nodes, demand)

    assert busy_by_day > 50 > busy_by_night


def test_a_pod_without_a_profile_is_expected_to_use_the_same_all_day() -> None:
    """Then only the daily means of the nodes count."""
    nodes = nodes_with([0.8 * DAY, 0.8 * NIGHT, np.full(SLOTS, 0.1)])

    by_day, by_night, idle = ProfilePolicy().score(nodes, a_demand(10.0))

    assert by_day == by_night < idle


def test_a_point_of_load_is_a_point_of_score() -> None:
    """For a tiny pod without memory: 50 at the cluster's mean, more below, fewer above."""
    nodes = nodes_with([np.full(SLOTS, load) for load in (0.2, 0.4, 0.6)])
    demand = msgspec.structs.replace(a_demand(0.001), daily=np.array([np.full(SLOTS, 0.001), np.zeros(SLOTS)]))

    unbalanced = ProfilePolicy(resource_weights=ProfileWeights(balance=0.0))
    assert np.allclose(unbalanced.score(nodes, demand), [70.0, 50.0, 30.0], atol=0.01)


def test_memory_counts_in_addition_to_cpu() -> None:
    """Equal cores, different memory; without the weight of memory scores are equal."""
    full, empty = np.full(SLOTS, 0.8), np.full(SLOTS, 0.2)
    nodes = nodes_with([full, full], [full, empty])

    fuller, emptier = ProfilePolicy().score(nodes, a_demand(5.0))
    alike = ProfilePolicy(resource_weights=ProfileWeights(memory=0.0)).score(nodes, a_demand(5.0))

    assert fuller < emptier
    assert alike[0] == alike[1]


def test_a_pod_without_memory_goes_to_the_node_with_full_memory() -> None:
    """No other pod can use the cores there; without the weight of balance scores are equal."""
    cpu = np.full(SLOTS, 0.4)
    nodes = nodes_with([cpu, cpu], [np.full(SLOTS, 0.9), np.full(SLOTS, 0.1)])
    demand = msgspec.structs.replace(a_demand(5.0), daily=np.array([np.full(SLOTS, 5.0), np.zeros(SLOTS)]))

    full, empty = ProfilePolicy().score(nodes, demand)
    alike = ProfilePolicy(resource_weights=ProfileWeights(balance=0.0)).score(nodes, demand)

    assert full > empty
    assert alike[0] == alike[1]


def test_a_node_that_would_be_overfull_in_one_hour_scores_0() -> None:
    """A node whose peak is in another hour than the pod's does not."""
    nodes = nodes_with([0.95 * DAY, 0.95 * NIGHT])
    demand = msgspec.structs.replace(a_demand(10.0), daily=np.array([10.0 * DAY, np.full(SLOTS, 1.0)]))

    same_hours, other_hours = ProfilePolicy().score(nodes, demand)

    assert same_hours == 0
    assert other_hours > 0


def test_reservations_count_in_every_hour() -> None:
    """A burst is spread before its usage is measured."""
    nodes = nodes_with([np.full(SLOTS, 0.4)] * 2)
    assert nodes.daily is not None
    reserved = nodes.daily.reserved.copy()
    reserved[0, 0] = 0.1
    nodes = msgspec.structs.replace(nodes, daily=msgspec.structs.replace(nodes.daily, reserved=reserved))

    first, second = ProfilePolicy().score(nodes, a_demand(5.0))

    assert first < second


def test_a_node_without_measurements_scores_0() -> None:
    """The profiles of its pods are not enough."""
    nodes = nodes_with([np.full(SLOTS, 0.1), np.full(SLOTS, 0.1)], now=[np.nan, 10.0])

    unmeasured, measured = ProfilePolicy().score(nodes, a_demand(1.0))

    assert unmeasured == 0
    assert measured > 0


def test_the_level_is_the_clusters_daily_mean() -> None:
    """For explanations."""
    level = ProfilePolicy().level(nodes_with([0.8 * DAY, 0.8 * NIGHT]))

    assert np.allclose([level.cpu or 0, level.memory or 0], [0.4, 0.3])
