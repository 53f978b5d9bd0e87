"""The strategy that evens out the forecast day."""

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_workload
from descheduler.cluster_states import (
    EVERY_HOUR,
    UNLIMITED,
    WINDOWS,
    a_batch_pod,
    a_cluster,
    a_loaded_node,
    a_measured_day,
    a_node,
    a_pod,
    changed_node,
    names,
    no_utilization,
    node_fit,
    offering,
    pod_info,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, HourlyUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.pools import Requirement, Selector
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.state.daily_usage import UsageForecast

HOURS = np.arange(SLOTS)
BY_DAY = np.where((HOURS >= 8) & (HOURS < 20), 1.0, 0.0)
BY_NIGHT = 1.0 - BY_DAY
BASE = Resources(cpu=10.0, memory=64 * GIB)
BY_PROFILES = LevelDay(current_load_weight=0.0)


class World:
    """Pods with a given day on nodes. Their current usage is the mean of their day."""

    def __init__(self) -> None:
        self.days: dict[Workload, HourlyUsage] = {}
        self.measured: dict[str, Any] = {}
        """Measured hours by name of a node. Default: all."""

        self.measured_pods: dict[str, Any] = {}
        """Measured hours by name of a pod. Default: all."""

        self._pods: dict[str, list[MovablePod]] = {}
        self._memory: dict[str, float] = {}

    def node(self, name: str, memory: float = 64.0) -> None:
        self._pods[name], self._memory[name] = [], memory * GIB

    def pod(self, name: str, node: str, cpu: Any, memory: float = 1.0, **fields: Any) -> None:
        """`cpu`: cores by hour; `memory`: GiB, requested and used."""
        workload = a_workload(name=f"app-{name}")
        self.days[workload] = np.array([cpu, np.full(SLOTS, memory * GIB)])
        info = pod_info(name, {"cpu": 0.1, "memory": memory * GIB})
        usage = Resources(cpu=float(np.mean(cpu)), memory=memory * GIB)
        self._pods[node].append(a_pod(name, workload=workload, usage=usage, node=node, info=info, **fields))

    def cluster(self, **fields: Any) -> ClusterView:
        nodes = []
        for name, pods in self._pods.items():
            usage = Resources(
                cpu=sum(pod.usage.cpu or 0.0 for pod in pods), memory=sum(pod.usage.memory or 0.0 for pod in pods)
            )
            node = a_node(name, pods, base=BASE, usage=dict.fromkeys(WINDOWS, usage))
            nodes.append(changed_node(node, allocatable={"memory": self._memory[name]}))
        return a_cluster(*nodes, **({"days": self.usage(self.days)} | fields))

    def usage(self, known: Mapping[Workload, HourlyUsage]) -> UsageForecast:
        """The forecast when these profiles are known."""
        nodes = {
            name: a_measured_day(
                np.sum([np.zeros((2, SLOTS)), *(self.days[pod.workload] for pod in pods if pod.workload)], axis=0),
                self.measured.get(name, EVERY_HOUR),
            )
            for name, pods in self._pods.items()
        }
        hours = {
            pod.workload: self.measured_pods.get(pod.name, EVERY_HOUR) for pods in self._pods.values() for pod in pods
        }
        profiles = {workload: DailyProfile(usage=day, measured=hours[workload]) for workload, day in known.items()}
        return UsageForecast(profiles.get, no_utilization, nodes)


def day_and_night() -> World:
    """Two nodes with the same average usage: one is used by day, the other by night."""
    world = World()
    for node, shape in (("day", BY_DAY), ("night", BY_NIGHT)):
        world.node(node)
        for number in range(4):
            world.pod(f"{node}-{number}", node, 1.5 * shape)
    return world


def test_pods_with_a_peak_by_day_move_to_a_node_with_a_peak_by_night() -> None:
    """The means over every window are the same: no other strategy would move them."""
    plan = BY_PROFILES.plan(day_and_night().cluster(), {"day", "night"})

    assert (
        sorted((move.pod.node, move.target) for move in plan.moves) == [("day", "night")] * 2 + [("night", "day")] * 2
    )


def test_nodes_with_the_same_day_are_not_changed() -> None:
    """Both nodes are hot by day, and so is the cluster."""
    world = World()
    for node in ("one", "two"):
        world.node(node)
        for number in range(4):
            world.pod(f"{node}-{number}", node, 2.0 * BY_DAY)

    cluster = world.cluster()
    assert {each.state for each in BY_PROFILES.classify(cluster)} == {"between"}
    assert not BY_PROFILES.plan(cluster, names(cluster)).moves


def test_a_reason_names_the_hour_with_the_largest_distance() -> None:
    """With the load of the node and of the cluster."""
    world = day_and_night()
    world.pod("noon", "day", 3.0 * (HOURS == 12))
    each = BY_PROFILES.classify(world.cluster())[0]

    assert each.state == "hot"
    assert each.why.endswith("most in cpu at 12:00 UTC: 90.0% against 45.0%")


def test_a_reason_names_no_hour_if_all_are_alike() -> None:
    """As where no hour of the past day is known."""
    world = World()
    world.node("hot")
    world.node("idle")
    world.pod("busy", "hot", 8.0 * np.ones_like(BY_DAY))
    each = BY_PROFILES.classify(world.cluster())[0]

    assert each.state == "hot"
    assert each.why.endswith("most in cpu: 80.0% against 40.0%")


def hours(*unmeasured: int) -> Any:
    """Every hour but these."""
    return ~np.isin(HOURS, unmeasured)


@pytest.mark.parametrize("count", [0, 5, 19])
def test_nothing_is_planned_before_the_day_is_measured(count: int) -> None:
    """A cluster that is 41 minutes old has no measurement of the hours of the peak."""
    world = day_and_night()
    world.measured = dict.fromkeys(("day", "night"), HOURS < count)
    why = f"day is not measured yet ({count} of 24 hours)"
    plan = BY_PROFILES.plan(world.cluster(), {"day", "night"})

    assert (plan.moves, plan.later, plan.why) == ((), (), f"not planned: the {why}")
    assert {(each.state, each.why) for each in BY_PROFILES.classify(world.cluster())} == {("unknown", f"its {why}")}


def test_an_hour_that_is_not_measured_is_no_reason() -> None:
    """It is neither named, nor does it make a node hot or a move a gain."""
    world = day_and_night()
    world.node("third")
    world.pod("midnight", "day", 10.0 * (HOURS == 0))
    measured_at_midnight = BY_PROFILES.classify(world.cluster())[0]
    world.measured = dict.fromkeys(("day", "night", "third"), hours(0))
    each = BY_PROFILES.classify(world.cluster())[0]

    assert "at 00:00 UTC" in measured_at_midnight.why
    assert "at 08:00 UTC" in each.why

    flat = World()
    for node in ("one", "two"):
        flat.node(node)
        flat.pod(f"{node}-flat", node, np.ones(SLOTS))
    flat.pod("midnight", "one", 9.0 * (HOURS == 0))
    flat.pod("other", "one", np.full(SLOTS, 0.01))
    flat.measured = dict.fromkeys(("one", "two"), hours(0))
    assert {each.state for each in BY_PROFILES.classify(flat.cluster())} == {"between"}
    assert not BY_PROFILES.plan(flat.cluster(), {"one", "two"}).moves


def test_a_node_that_was_not_measured_in_a_counted_hour_takes_no_part() -> None:
    """Neither as source nor as target, nor in the mean: it is the node with one large new pod."""
    world = day_and_night()
    for number in range(8):
        world.node(f"other-{number}")
        world.pod(f"other-{number}", f"other-{number}", np.full(SLOTS, 3.0))
    world.node("new")
    world.pod("large", "new", np.full(SLOTS, 9.0))
    without = BY_PROFILES.classify(world.cluster())
    world.measured = {"new": HOURS < 5}
    cluster = world.cluster()
    by_name = {each.node: each for each in BY_PROFILES.classify(cluster)}
    plan = BY_PROFILES.plan(cluster, names(cluster))

    assert {each.node: each.state for each in without}["new"] == "hot"
    assert (by_name["new"].state, by_name["new"].why) == ("unknown", "its day is not measured yet (5 of 24 hours)")
    assert plan.moves
    assert "new" not in {name for move in (*plan.moves, *plan.later) for name in (move.pod.node, move.target)}


def test_a_plan_without_hot_nodes_says_how_many_nodes_are_not_measured() -> None:
    """An empty node has nothing to measure: the hours count, and still no other node has a day."""
    world = World()
    for number in range(9):
        world.node(f"empty-{number}")
    world.node("new")
    world.pod("large", "new", np.full(SLOTS, 9.0))
    world.measured = {"new": HOURS < 0}
    plan = BY_PROFILES.plan(world.cluster(), {"new"})

    assert plan.why == "no node's day is above the cluster's; the day of 1 node is not measured yet"


def test_a_pod_that_was_not_measured_in_a_counted_hour_does_not_move() -> None:
    """Its node was: most of the usage of its pods is known."""
    world = day_and_night()
    world.measured_pods = {"day-0": HOURS < 5}
    plan = BY_PROFILES.plan(world.cluster(), {"day", "night"})

    assert plan.moves
    assert "day-0" not in {move.pod.name for move in (*plan.moves, *plan.later)}
    assert ["its day is not measured yet (5 of 24 hours)"] == [
        entry.why for entry in plan.refused if entry.pod == "shop/day-0"
    ]


def test_hours_that_few_nodes_lack_count() -> None:
    """Only the nodes that lack them take no part."""
    world = day_and_night()
    for number in range(8):
        world.node(f"other-{number}")
    world.measured = {"other-0": hours(3), "other-1": hours(3)}
    states = {each.node: each.state for each in BY_PROFILES.classify(world.cluster())}
    assert {name for name, state in states.items() if state == "unknown"} == {"other-0", "other-1"}

    world.measured["other-2"] = hours(3)
    assert "unknown" not in {each.state for each in BY_PROFILES.classify(world.cluster())}


def test_the_current_load_alone_needs_no_measured_day() -> None:
    """Hours without weight need not be measured."""
    world = World()
    world.node("busy")
    world.node("idle")
    for number in range(4):
        world.pod(f"busy-{number}", "busy", np.full(SLOTS, 2.0))
    world.measured = dict.fromkeys(("busy", "idle"), HOURS < 0)
    world.measured_pods = {f"busy-{number}": HOURS < 0 for number in range(4)}

    assert LevelDay(current_load_weight=1.0).plan(world.cluster(), {"busy"}).moves
    assert not LevelDay(current_load_weight=0.9).plan(world.cluster(), {"busy"}).moves


def test_nodes_that_are_not_selected_do_not_count() -> None:
    """A third, idle node changes nothing and is no target."""
    world = day_and_night()
    world.node("elsewhere")
    pool = Selector(
        match_expressions=(Requirement(key="kubernetes.io/hostname", operator="In", values=("day", "night")),)
    )
    strategy = LevelDay(node_selector=pool)
    plan = strategy.plan(world.cluster(), {"day", "night", "elsewhere"})

    assert {each.node for each in strategy.classify(world.cluster())} == {"day", "night"}
    assert plan.moves == LevelDay().plan(day_and_night().cluster(), {"day", "night"}).moves
    assert "elsewhere" in {move.target for move in LevelDay().plan(world.cluster(), {"day", "night"}).moves}


def test_only_abnormal_nodes_are_sources() -> None:
    """Pods leave the other node only to make room."""
    plan = BY_PROFILES.plan(day_and_night().cluster(), {"day"})

    assert {move.pod.node for move in plan.moves if not move.makes_room_for} == {"day"}


def full_of_memory() -> World:
    """The pods of the hot node do not fit into the free memory of the cool one; the third node has room for a small
    pod of that.
    """
    world = World()
    world.node("hot", memory=40)
    world.node("cool", memory=40)
    world.node("small", memory=12)
    for number in range(4):
        world.pod(f"big-{number}", "hot", np.full(SLOTS, 2.0), memory=10)
    for number in range(6):
        world.pod(f"little-{number}", "cool", np.full(SLOTS, 0.1), memory=6)
    world.pod("alone", "small", np.full(SLOTS, 4.0), memory=6)
    return world


def test_a_pod_makes_room_for_another_where_memory_is_full() -> None:
    """The first moves now, the second once the first has left. Both count for the limits."""
    strategy = LevelDay(weights=msgspec.json.decode(b'{"cpu":1,"memory":0}', type=type(LevelDay().weights)))
    cluster = full_of_memory().cluster(limits=IntentLimits(per_evaluation=2, per_node=2, per_workload=1))
    plan = strategy.plan(cluster, {"hot"})

    (first,), (second,) = plan.moves, plan.later
    assert (first.pod.node, first.target, first.makes_room_for) == ("cool", "small", f"shop/{second.pod.name}")
    assert (second.pod.node, second.target) == ("hot", "cool")
    assert first.reason.startswith(f"makes room on cool for shop/{second.pod.name} of hot: its day is ")
    assert not strategy.plan(msgspec.structs.replace(cluster, limits=_one(cluster)), {"hot"}).moves
    alone = msgspec.structs.replace(strategy, paired_moves=False).plan(cluster, {"hot"})
    assert (alone.moves, alone.why) == ([], "no move of their pods would have a gain of 15 squared points")


def _one(cluster: ClusterView) -> IntentLimits:
    return msgspec.structs.replace(cluster.limits, per_evaluation=1)


def test_requests_freed_by_a_plan_are_not_available_to_it() -> None:
    """Its intents are published together: a pod whose place is still taken would be refused."""
    world = World()
    for name, memory in (("by-day", 4.0), ("by-night", 4.0), ("empty", 8.0)):
        world.node(name, memory)
    for number in range(4):
        world.pod(f"day-{number}", "by-day", 2.0 * BY_DAY)
        world.pod(f"night-{number}", "by-night", 2.0 * BY_NIGHT)
    cluster = world.cluster()
    plan = msgspec.structs.replace(BY_PROFILES, paired_moves=False).plan(cluster, names(cluster))

    assert {"empty"} == {move.target for move in plan.moves}


def test_the_second_pod_moves_once_it_has_room() -> None:
    """It is planned again, as the best move at that time."""
    world = full_of_memory()
    cluster = world.cluster()
    nodes = {node.name: node for node in cluster.nodes}
    left = [pod for pod in nodes["cool"].pods if pod.name != "little-0"]
    cool = msgspec.structs.replace(nodes["cool"], pods=left, occupying=[pod.info for pod in left])
    plan = LevelDay().plan(
        msgspec.structs.replace(cluster, nodes=[nodes["hot"], cool, nodes["small"]], limits=_one(cluster)), {"hot"}
    )

    assert [(move.pod.node, move.target, move.makes_room_for) for move in plan.moves] == [("hot", "cool", "")]


@pytest.mark.parametrize("profiled", [False, True])
def test_a_pod_of_unknown_usage_does_not_move(profiled: bool) -> None:
    """Whether its workload has a profile or not. The others move all the same."""
    world = day_and_night()
    profiles = {workload: day for workload, day in world.days.items() if profiled or workload.name != "app-day-0"}
    cluster = world.cluster(days=world.usage(profiles))
    nodes = [
        msgspec.structs.replace(
            node,
            pods=[msgspec.structs.replace(pod, usage=Resources()) if pod.name == "day-0" else pod for pod in node.pods],
        )
        for node in cluster.nodes
    ]
    plan = BY_PROFILES.plan(msgspec.structs.replace(cluster, nodes=nodes), {"day", "night"})

    assert plan.moves
    assert "day-0" not in {move.pod.name for move in (*plan.moves, *plan.later)}
    assert [entry.why for entry in plan.refused if entry.pod == "shop/day-0"] == ["its usage is not known"]


def test_without_a_forecast_nodes_are_unknown() -> None:
    """And no pod moves."""
    cluster = day_and_night().cluster(days=None)

    assert {each.state for each in BY_PROFILES.classify(cluster)} == {"unknown"}
    assert not BY_PROFILES.plan(cluster, names(cluster)).moves


def test_the_current_load_counts_by_its_weight() -> None:
    """By the profiles the nodes are even, by measurement one of them is busy now."""
    world = World()
    for node in ("one", "two"):
        world.node(node)
        for number in range(4):
            world.pod(f"{node}-{number}", node, np.full(SLOTS, 1.0))
    cluster = world.cluster()
    busy = [msgspec.structs.replace(pod, usage=Resources(cpu=2.0, memory=GIB)) for pod in cluster.nodes[0].pods]
    usage = dict.fromkeys(WINDOWS, Resources(cpu=8.0, memory=4 * GIB))
    one = msgspec.structs.replace(cluster.nodes[0], pods=busy, usage=usage)
    now = msgspec.structs.replace(cluster, nodes=[one, cluster.nodes[1]])

    assert not LevelDay(current_load_weight=0.0).plan(now, {"one"}).moves
    assert LevelDay(current_load_weight=0.5).plan(now, {"one"}).moves


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), high=st.floats(30, 95))
def test_no_hour_of_a_target_is_above_its_limit(seed: int, high: float) -> None:
    """Not above the high threshold, the cluster's load of that hour plus maxAboveMean, and the hottest node."""
    chance = random.Random(seed)
    world = World()
    for number in range(5):
        world.node(f"node-{number}")
        for place in range(chance.randrange(6)):
            shape = chance.choice([BY_DAY, BY_NIGHT, np.full(SLOTS, 0.6)])
            world.pod(f"{number}-{place}", f"node-{number}", chance.uniform(0, 3) * shape)
    strategy = LevelDay(current_load_weight=0.0, min_gain=1.0)
    cluster = world.cluster(
        thresholds=Thresholds(high=ResourceThresholds(cpu=high, memory=95), low=ResourceThresholds(cpu=10, memory=20))
    )
    plan = strategy.plan(cluster, names(cluster))
    days = {node.name: _cpu(cluster, node) for node in cluster.nodes}
    mean = np.mean(list(days.values()), axis=0)
    ceiling = np.maximum(np.maximum(high / 100, np.minimum(mean + 0.15, 0.95)), np.max(list(days.values()), axis=0))
    for move in (*plan.moves, *plan.later):
        assert move.pod.workload is not None
        day = world.days[move.pod.workload][0] / 10.0
        days[move.pod.node] = days[move.pod.node] - day
        days[move.target] = days[move.target] + day
    for move in plan.moves:
        assert (days[move.target] <= ceiling + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), missing=st.sets(st.integers(0, SLOTS - 1), max_size=4), peak=st.floats(0, 3))
def test_what_is_assumed_of_hours_that_were_not_measured_is_no_reason(
    seed: int, missing: set[int], peak: float
) -> None:
    """Whatever it is, the same nodes are hot, for the same reason."""

    def world(assumed: float) -> World:
        chance = random.Random(seed)
        made = World()
        for number in range(4):
            name = f"node-{number}"
            made.node(name)
            made.measured[name] = hours(*missing)
            for place in range(chance.randrange(5)):
                usage = chance.uniform(0, 2) * chance.choice([BY_DAY, BY_NIGHT, np.ones(SLOTS)])
                usage[list(missing)] = assumed * chance.random()
                made.pod(f"{number}-{place}", name, usage)
        return made

    def classified(cluster: ClusterView) -> list[tuple[str, str]]:
        return [(each.state, each.why) for each in LevelDay().classify(cluster)]

    assert classified(world(0.0).cluster()) == classified(world(peak).cluster())


@pytest.mark.parametrize(("high", "max_above_mean", "moves"), [(50, 0, False), (60, 0, True), (50, 20, True)])
def test_a_node_too_high_in_some_hour_is_no_target(high: float, max_above_mean: float, moves: bool) -> None:
    """It is idle by day. At night it would be at 55 %, the hot node at 30 % and the cluster at 37.5 %."""
    world = World()
    world.node("hot")
    world.node("idle by day")
    for number in range(3):
        world.pod(f"hot-{number}", "hot", 3.0 * BY_DAY + 1.0 * BY_NIGHT)
    world.pod("at-night", "idle by day", 4.5 * BY_NIGHT)
    cluster = world.cluster(
        thresholds=Thresholds(high=ResourceThresholds(cpu=high, memory=95), low=ResourceThresholds(cpu=10, memory=20))
    )
    plan = LevelDay(max_above_mean=max_above_mean, paired_moves=False).plan(cluster, {"hot"})

    assert bool(plan.moves) is moves


def _cpu(cluster: ClusterView, node: ClusterNode) -> Any:
    assert cluster.days is not None
    return cluster.days.of_nodes([node.name])[0, 0] / 10.0


@pytest.mark.parametrize("weights", ['{"cpu": 0, "memory": 0}'])
def test_weights_of_zero_are_refused(weights: str) -> None:
    """Every move would have the same gain."""
    with pytest.raises(msgspec.ValidationError, match="at least one above 0"):
        msgspec.json.decode('{"name": "level_day", "weights": ' + weights + "}", type=LevelDay)


def test_a_plan_of_many_moves_halves_the_spread() -> None:
    """Of the hour with the largest spread, which is above 50 points before."""
    chance = random.Random(7)
    world = World()
    for number in range(12):
        world.node(f"node-{number:02}")
        for place in range(6):
            shape = BY_DAY if number % 3 == 0 else BY_NIGHT if number % 3 == 1 else np.full(SLOTS, 0.4)
            world.pod(f"{number}-{place}", f"node-{number:02}", chance.uniform(0.5, 1.5) * shape)
    cluster = world.cluster(limits=UNLIMITED, now=NOW)
    days = {node.name: _cpu(cluster, node) for node in cluster.nodes}
    before = max(np.ptp(list(days.values()), axis=0))
    for move in BY_PROFILES.plan(cluster, names(cluster)).moves:
        assert move.pod.workload is not None
        day = world.days[move.pod.workload][0] / 10.0
        days[move.pod.node] = days[move.pod.node] - day
        days[move.target] = days[move.target] + day

    assert before > 0.5
    assert max(np.ptp(list(days.values()), axis=0)) < before / 2


def test_batch_work_is_not_moved_for_the_load_of_a_day() -> None:
    """It ends within hours, and its node is as high as its other pods are."""
    batch = [a_batch_pod(f"batch-{number}", cpu=1.0) for number in range(4)]
    cluster = a_cluster(
        offering(a_node("batch", batch), cores=8.0), offering(a_loaded_node("empty", 0.1, memory=0.1), cores=8.0)
    )
    now = LevelDay(current_load_weight=1.0)

    plan = BY_PROFILES.plan(cluster, names(cluster))

    assert not plan.moves
    assert {entry.why for entry in plan.refused} == {"it is batch work, which ends within hours"}
    # Of 4 cores 0.8 count, next to one core: all of them would be 15 points above the mean.
    assert {each.state for each in now.classify(cluster)} == {"between"}


def test_without_scores_a_pod_does_not_move_where_kube_scheduler_would_not_place_it() -> None:
    """The replacement would run on its own node, or on one whose day is not better."""
    world = day_and_night()
    world.pod("reserved", "night", 0.0 * BY_DAY, memory=40.0)

    alone = world.cluster(fit=partial(node_fit, target_points=0))

    assert {move.target for move in BY_PROFILES.plan(world.cluster(), {"day", "night"}).moves} == {"day", "night"}
    assert {move.target for move in BY_PROFILES.plan(alone, {"day", "night"}).moves} == {"day"}


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_no_pod_leaves_for_load_that_is_only_expected(weight: float) -> None:
    """Each node is measured at 30 %; on one, pods that are not measured are expected to use half of it."""
    expected = dict.fromkeys(WINDOWS, Resources(cpu=5.0, memory=0.0))
    usage = dict.fromkeys(WINDOWS, Resources(cpu=8.0, memory=12.8 * GIB))
    full = a_loaded_node("node-a", 0.3, usage=usage, expected=expected)
    cluster = a_cluster(full, *(a_loaded_node(f"node-{name}", 0.3) for name in "bcd"))
    strategy = LevelDay(current_load_weight=weight)

    assert strategy.plan(cluster, names(cluster)).why == "no node's day is above the cluster's"
    assert {each.state for each in strategy.classify(cluster)} == {"between"}


def test_what_is_expected_of_a_node_keeps_pods_away_from_it() -> None:
    """It looks like the emptiest node without the pods that are not measured there yet."""
    expected = dict.fromkeys(WINDOWS, Resources(cpu=6.0, memory=0.0))
    usage = dict.fromkeys(WINDOWS, Resources(cpu=7.0, memory=12.8 * GIB))
    filling = a_loaded_node("filling", 0.1, usage=usage, expected=expected)
    cluster = a_cluster(a_loaded_node("full", 0.7), filling, a_loaded_node("free", 0.2))

    plan = LevelDay(current_load_weight=1.0).plan(cluster, names(cluster))

    assert {(move.pod.node, move.target) for move in plan.moves} == {("full", "free")}


def test_a_target_is_not_filled_as_high_as_its_source_is_expected_to_be() -> None:
    """Above its threshold a target may be filled up to the load that the source was measured at."""
    expected = dict.fromkeys(WINDOWS, Resources(cpu=3.0, memory=0.0))
    usage = dict.fromkeys(WINDOWS, Resources(cpu=9.0, memory=12.8 * GIB))
    source = a_loaded_node("source", 0.6, pieces=3, usage=usage, expected=expected)
    cluster = a_cluster(
        source,
        a_loaded_node("target", 0.45),
        thresholds=Thresholds(high=ResourceThresholds(cpu=20), low=ResourceThresholds(cpu=10)),
    )
    strategy = LevelDay(current_load_weight=1.0, max_above_mean=0.0, threshold=0.0, min_gain=0.0)

    assert not strategy.plan(cluster, names(cluster)).moves
