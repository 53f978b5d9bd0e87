"""profile: a pod goes where it levels the coming day."""

import msgspec
import numpy as np
from scorer.fleets import a_demand, days_of, evenly, node_loads

from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.scorer.decisions.policies.profile import DayWeights, Profile
from equipoise.scorer.state.arrays import Array, NodeLoads

DAY = np.where(np.arange(SLOTS) < 12, 1.0, 0.0)
"""Works in the first half of the day."""

NIGHT = 1.0 - DAY


def nodes_with(cpu: list[Array], memory: list[Array] | None = None, now: list[float] | None = None) -> NodeLoads:
    """Nodes of 100 cores and bytes with these days, as shares; `now` is what the last minutes showed, in percent."""
    share = np.array([cpu, memory or [np.full(SLOTS, 0.3)] * len(cpu)])
    nodes = node_loads(evenly(now or [50.0] * len(cpu)))
    return msgspec.structs.replace(nodes, days=days_of(share, share))


def test_a_pod_of_the_night_goes_where_the_day_is_busy() -> None:
    """Though that node is the hotter one in the last minutes, and their means are equal."""
    nodes = nodes_with([0.8 * DAY, 0.8 * NIGHT], now=[80.0, 0.0])
    demand = msgspec.structs.replace(a_demand(10.0), day=np.array([10.0 * NIGHT, np.full(SLOTS, 10.0)]))

    busy_by_day, busy_by_night = Profile().score(nodes, demand)

    assert busy_by_day > 50 > busy_by_night


def test_a_new_workload_is_taken_to_use_the_same_all_day() -> None:
    """Then only the means of the days count: equal here."""
    nodes = nodes_with([0.8 * DAY, 0.8 * NIGHT, np.full(SLOTS, 0.1)])

    by_day, by_night, idle = Profile().score(nodes, a_demand(10.0))

    assert by_day == by_night < idle


def test_a_point_of_load_is_a_point_of_score() -> None:
    """A tiny pod of cpu only: 50 on the fleet's mean, more below, fewer above."""
    nodes = nodes_with([np.full(SLOTS, load) for load in (0.2, 0.4, 0.6)])
    demand = msgspec.structs.replace(a_demand(0.001), day=np.array([np.full(SLOTS, 0.001), np.zeros(SLOTS)]))

    unbalanced = Profile(resource_weights=DayWeights(balance=0.0))
    assert np.allclose(unbalanced.score(nodes, demand), [70.0, 50.0, 30.0], atol=0.01)


def test_memory_counts_beside_cpu() -> None:
    """Equal cores, unequal memory; without its weight they are alike."""
    full, empty = np.full(SLOTS, 0.8), np.full(SLOTS, 0.2)
    nodes = nodes_with([full, full], [full, empty])

    crowded, roomy = Profile().score(nodes, a_demand(5.0))
    alike = Profile(resource_weights=DayWeights(memory=0.0)).score(nodes, a_demand(5.0))

    assert crowded < roomy
    assert alike[0] == alike[1]


def test_a_pod_of_cores_alone_goes_where_memory_is_already_full() -> None:
    """Nobody else could use the cores there; without the weight of balance the two are alike."""
    cpu = np.full(SLOTS, 0.4)
    nodes = nodes_with([cpu, cpu], [np.full(SLOTS, 0.9), np.full(SLOTS, 0.1)])
    demand = msgspec.structs.replace(a_demand(5.0), day=np.array([np.full(SLOTS, 5.0), np.zeros(SLOTS)]))

    full, empty = Profile().score(nodes, demand)
    alike = Profile(resource_weights=DayWeights(balance=0.0)).score(nodes, demand)

    assert full > empty
    assert alike[0] == alike[1]


def test_a_node_that_would_be_overfull_in_one_hour_gets_nothing() -> None:
    """But one whose peak falls into another hour than the pod's is used."""
    nodes = nodes_with([0.95 * DAY, 0.95 * NIGHT])
    demand = msgspec.structs.replace(a_demand(10.0), day=np.array([10.0 * DAY, np.full(SLOTS, 1.0)]))

    same_hours, other_hours = Profile().score(nodes, demand)

    assert same_hours == 0
    assert other_hours > 0


def test_promises_count_in_every_hour() -> None:
    """A burst spreads although nobody has measured it yet."""
    nodes = nodes_with([np.full(SLOTS, 0.4)] * 2)
    assert nodes.days is not None
    booked = nodes.days.booked.copy()
    booked[0, 0] = 0.1
    promised = msgspec.structs.replace(nodes, days=msgspec.structs.replace(nodes.days, booked=booked))

    first, second = Profile().score(promised, a_demand(5.0))

    assert first < second


def test_a_node_that_nobody_measures_gets_nothing() -> None:
    """Its pods' days alone are no knowledge of it."""
    nodes = nodes_with([np.full(SLOTS, 0.1), np.full(SLOTS, 0.1)], now=[np.nan, 10.0])

    unmeasured, measured = Profile().score(nodes, a_demand(1.0))

    assert unmeasured == 0
    assert measured > 0


def test_the_level_is_the_fleets_mean_day() -> None:
    """To explain a score by."""
    level = Profile().level(nodes_with([0.8 * DAY, 0.8 * NIGHT]))

    assert np.allclose([level.cpu or 0, level.memory or 0], [0.4, 0.3])
