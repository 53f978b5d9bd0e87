"""Pods move away from nodes whose pods wait for others, and not from nodes that are only busy."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization
from descheduler.cluster_states import a_cluster, a_loaded_node, a_node, a_pod, names
from descheduler.snapshots import a_pod as a_running_pod
from descheduler.snapshots import a_snapshot, evaluation_settings
from descheduler.state.test_cluster_builder import a_move
from hypothesis import given
from hypothesis import strategies as st

from equipoise.cli.report.now.figures import hot_nodes
from equipoise.contracts.configuration.settings import (
    FurtherThresholds,
    PressureThresholds,
    ResourceThresholds,
    Thresholds,
)
from equipoise.contracts.load.pressure import contention, is_hot, uncontended
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import AbnormalCount
from equipoise.descheduler.state.cluster_builder import ClusterBuilder

PRESSURE = PressureThresholds(cpu=20, io=20)
THRESHOLDS = Thresholds(
    high=ResourceThresholds(cpu=65, memory=80), low=ResourceThresholds(cpu=45, memory=60), pressure=PRESSURE
)
STRATEGY = LowNodeLoad()
IDLE = a_loaded_node("idle", 0.1)
HALF = {"5m": Resources(cpu=5.0, memory=8 * GIB)}


def under_pressure(
    node: ClusterNode, pods: dict[str, MeasuredPodPressure] | None = None, **waiting: float
) -> ClusterNode:
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(**waiting), pods=pods or {})
    return msgspec.structs.replace(
        node, pressure=pressure, contention=contention(pressure, PRESSURE), uncontended=uncontended(pressure, PRESSURE)
    )


def seen(*nodes: ClusterNode, **fields: Any) -> ClusterView:
    return a_cluster(*nodes, **({"thresholds": THRESHOLDS} | fields))


LOADS = st.sampled_from([0.3, 0.5, 0.7, 0.9])
WAITING = st.none() | st.sampled_from([0.1, 0.4])


@given(cpu=LOADS, memory=LOADS, waiting=st.builds(Pressure, cpu=WAITING, memory=WAITING, io=WAITING),
       throttled=st.booleans(), required=st.booleans())  # fmt: skip
def test_reports_call_the_nodes_hot_that_the_descheduler_relieves(
    cpu: float, memory: float, waiting: Pressure, throttled: bool, required: bool
) -> None:
    """The rule of a single node, by which reviews and reports count, and that of the arrays of a plan."""
    pods = {"uid": MeasuredPodPressure(cpu=0.4, throttled=0.5)} if throttled else {}
    shares = {name: share for name in ("cpu", "memory", "io") if (share := getattr(waiting, name)) is not None}
    node = under_pressure(a_loaded_node("node", cpu, memory), pods, **shares)
    over = [name for name, load, high in (("cpu", cpu, 0.65), ("memory", memory, 0.8)) if load > high]
    classified = STRATEGY.classify(seen(node, require_pressure=required))

    assert hot_nodes([classified]) == (["node"] if is_hot(over, node.pressure, PRESSURE, required=required) else [])


def planned(cluster: ClusterView) -> MovePlan:
    return STRATEGY.plan(cluster, names(cluster))


def moved_pods(cluster: ClusterView) -> list[str]:
    return [move.pod.name for move in planned(cluster).moves]


def states(cluster: ClusterView) -> dict[str, str]:
    return {item.node: item.state for item in STRATEGY.classify(cluster)}


# A node with pressure is hot, whatever its load is


@pytest.mark.parametrize("resource", ["cpu", "io"])
def test_a_node_below_its_load_threshold_is_hot_if_its_pods_wait(resource: str) -> None:
    node = under_pressure(a_loaded_node("waiting", 0.5), **{resource: 0.4})
    (item, _) = STRATEGY.classify(seen(node, IDLE))

    assert "hot" == item.state
    assert [resource] == item.waits_for
    assert "40% of the time (above 20%)" in item.why
    assert item.pressure == Pressure(**{resource: 0.4})


def test_waiting_for_memory_alone_makes_no_node_hot() -> None:
    """A pod that reaches its own memory limit waits for memory, too."""
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(memory=0.9))
    node = msgspec.structs.replace(a_loaded_node("waiting", 0.5), pressure=pressure, contention={"memory": 0.9})

    assert "between" == states(seen(node, IDLE))["waiting"]


def test_the_pod_that_uses_most_leaves_and_not_the_one_that_waits() -> None:
    neighbour, server = a_pod("neighbour", cpu=2.0), a_pod("server", cpu=0.3)
    small = [a_pod(f"small-{number}", cpu=0.5) for number in range(4)]
    waiting = {"uid-server": MeasuredPodPressure(cpu=0.9), "uid-neighbour": MeasuredPodPressure(cpu=0.1)}
    node = under_pressure(a_node("waiting", [server, *small, neighbour]), waiting, cpu=0.6)

    assert ["neighbour"] == moved_pods(seen(node, IDLE))


def test_the_pod_that_uses_the_disk_leaves_a_node_that_waits_for_it() -> None:
    writer, burner = a_pod("writer", cpu=0.1), a_pod("burner", cpu=4.0)
    used = {"uid-writer": MeasuredPodPressure(disk=2e8), "uid-burner": MeasuredPodPressure(disk=2e6, io=0.9)}
    node = under_pressure(a_node("waiting", [burner, writer]), used, io=0.5)

    assert ["writer"] == moved_pods(seen(node, IDLE))


def test_nothing_leaves_a_node_that_waits_for_disks_if_nobody_knows_who_uses_them() -> None:
    plan = planned(seen(under_pressure(a_loaded_node("waiting", 0.5), io=0.5), IDLE))

    assert [] == list(plan.moves)
    assert "it is not measured which of them use disks" in plan.why


def test_a_node_that_waits_for_disks_and_cpu_is_relieved_of_what_is_known() -> None:
    node = under_pressure(
        a_node("waiting", [a_pod("burner", cpu=2.0), *(a_pod(f"small-{i}", cpu=0.3) for i in range(5))]),
        cpu=0.3,
        io=0.6,
    )

    assert ["burner"] == moved_pods(seen(node, IDLE))


def test_one_pod_leaves_at_a_time_because_the_effect_on_pressure_is_not_known_before() -> None:
    node = under_pressure(a_loaded_node("waiting", 0.6, pieces=6), cpu=0.9)

    assert 1 == len(moved_pods(seen(node, IDLE)))


def test_a_more_important_pod_stays_when_a_less_important_one_uses_enough() -> None:
    important, other = a_pod("important", cpu=2.5, priority=10), a_pod("other", cpu=2.0)
    node = under_pressure(a_node("waiting", [important, other]), cpu=0.6)

    assert ["other"] == moved_pods(seen(node, IDLE))


def test_a_pod_that_uses_little_stays_although_it_is_less_important() -> None:
    pods = [a_pod("small", cpu=0.1), a_pod("large", cpu=2.5, priority=10)]

    assert ["large"] == moved_pods(seen(under_pressure(a_node("waiting", pods, usage=HALF), cpu=0.6), IDLE))


def test_of_two_pods_that_use_the_disk_the_one_that_uses_more_leaves() -> None:
    used = {"uid-a": MeasuredPodPressure(disk=1e8), "uid-b": MeasuredPodPressure(disk=2e8)}
    node = under_pressure(a_node("waiting", [a_pod("a", cpu=0.5), a_pod("b", cpu=0.5)]), used, io=0.5)

    assert ["b"] == moved_pods(seen(node, IDLE))


def test_the_node_whose_pods_wait_longest_is_relieved_first() -> None:
    less = under_pressure(a_node("a", [a_pod("less", cpu=2.0)], usage=HALF), cpu=0.3)
    more = under_pressure(a_node("b", [a_pod("more", cpu=2.0)], usage=HALF), cpu=0.9)

    assert ["more", "less"] == moved_pods(seen(less, more, IDLE, a_loaded_node("idle-2", 0.1)))


def test_a_node_that_waits_for_memory_is_neither_hot_nor_idle() -> None:
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(memory=0.9))
    node = msgspec.structs.replace(a_loaded_node("waiting", 0.1), pressure=pressure, contention={"memory": 0.9})

    assert {"waiting": "between", "idle": "idle"} == states(seen(node, IDLE))


def test_a_node_with_pressure_is_no_idle_node() -> None:
    """Without another idle node, nothing moves."""
    node = under_pressure(a_loaded_node("waiting", 0.1), cpu=0.4)

    assert "hot" == states(seen(node))["waiting"]
    assert [] == moved_pods(seen(under_pressure(a_loaded_node("other", 0.1), cpu=0.4), node))


def test_a_node_that_is_also_above_its_load_threshold_is_relieved_as_before() -> None:
    node = under_pressure(a_loaded_node("busy", 0.9), cpu=0.5)
    plan = planned(seen(node, IDLE))

    assert 1 < len(plan.moves)
    assert plan.moves[0].reason.endswith("; pods wait for CPU 50% of the time (above 20%)")


# requirePressure


def test_a_busy_node_without_pressure_is_reported_and_not_emptied() -> None:
    node = under_pressure(a_loaded_node("busy", 0.9), cpu=0.02)
    cluster = seen(node, IDLE, require_pressure=True)
    plan = planned(cluster)

    assert "between" == states(cluster)["busy"]
    assert [] == list(plan.moves)
    assert ["busy"] == [refused.node for refused in plan.refused]
    assert "above its threshold (cpu 90.0%), but its pods do not wait for others (2% of the time)" in plan.why


def test_a_busy_node_without_pressure_is_emptied_if_pressure_is_not_required() -> None:
    assert [] != moved_pods(seen(under_pressure(a_loaded_node("busy", 0.9), cpu=0.02), IDLE))


def test_a_busy_node_of_unknown_pressure_is_emptied_as_before() -> None:
    busy = a_loaded_node("busy", 0.9)

    assert moved_pods(seen(busy, IDLE)) == moved_pods(seen(busy, IDLE, require_pressure=True)) != []


def test_a_node_hot_in_memory_is_emptied_whatever_its_cpu_pressure_is() -> None:
    """Memory has no threshold of pressure here: a node without free memory ends pods."""
    node = under_pressure(a_loaded_node("busy", 0.9, memory=0.9), cpu=0.02)
    plan = planned(seen(node, IDLE, require_pressure=True))

    assert [] != list(plan.moves)
    assert plan.moves[0].reason == "node is hot: memory 90.0% is above 80%"


def test_a_calm_node_is_not_called_one_of_expected_load() -> None:
    calm, hot = under_pressure(a_loaded_node("calm", 0.9), cpu=0.02), under_pressure(a_loaded_node("hot", 0.9), cpu=0.3)
    plan = STRATEGY.plan(seen(calm, hot, IDLE, require_pressure=True), abnormal=())

    assert "no node has been above its threshold for long enough" == plan.why


def test_a_further_resource_named_io_is_not_calm_because_nobody_waits_for_disks() -> None:
    """It may be anything, such as operations per second that cost money."""
    limits = msgspec.structs.replace(THRESHOLDS, resources={"io": FurtherThresholds(high=50)})
    busy = msgspec.structs.replace(
        a_loaded_node("busy", 0.5),
        base=Resources(cpu=10.0, memory=64 * GIB, further={"io": 100.0}),
        usage={"5m": Resources(cpu=5.0, memory=GIB, further={"io": 90.0})},
        resources={"io": ""},
    )
    nodes = under_pressure(busy, cpu=0.02, io=0.0), IDLE
    assert "hot" == states(seen(*nodes, require_pressure=True, thresholds=limits, further=("io",)))["busy"]


def test_a_node_that_is_busy_by_its_production_pods_is_not_emptied_without_pressure_either() -> None:
    thresholds = msgspec.structs.replace(THRESHOLDS, prod_high=ResourceThresholds(cpu=30))
    busy = under_pressure(a_loaded_node("busy", 0.5), cpu=0.02)

    assert "hot" == states(seen(busy, IDLE, thresholds=thresholds))["busy"]
    assert "between" == states(seen(busy, IDLE, thresholds=thresholds, require_pressure=True))["busy"]


# From messages


def waiting_node(cpu: float, at: float = NOW, name: str = "node-a", used: float = 5.0) -> Any:
    pods = {"uid-web-1": Resources(cpu=2.0, memory=GIB)} if name == "node-a" else {}
    pressure = NodePressure(sampled_at=at, waiting=Pressure(cpu=cpu))
    return a_node_utilization(name, cpu=used, pods=pods, pressure=pressure)


def moves_of(*utilizations: Any) -> tuple[list[tuple[str, str]], MovePlan]:
    snapshot = a_snapshot(a_running_pod())
    nodes = dict(snapshot.nodes) | {item.node: item for item in utilizations}
    count = AbnormalCount(abnormal=4, evaluated_at=NOW - 120, sampled_at=NOW - 120, abnormal_at=NOW - 120)
    snapshot = msgspec.structs.replace(snapshot, nodes=nodes, counts={"low_node_load": {"node-a": count}})
    (result,) = evaluate(snapshot, evaluation_settings(THRESHOLDS)).results
    return [(move.pod.name, move.target) for move in result.plan.moves], result.plan


def test_a_pod_leaves_after_five_evaluations_with_pressure() -> None:
    assert [("web-1", "node-b")] == moves_of(waiting_node(0.5))[0]


def test_no_second_pod_leaves_before_pressure_was_measured_without_the_first() -> None:
    snapshot = a_snapshot(a_running_pod("web-1"), a_running_pod("web-2"), pending={"intent": a_move()})
    nodes = dict(snapshot.nodes) | {"node-a": waiting_node(0.5)}
    builder = ClusterBuilder(msgspec.structs.replace(snapshot, nodes=nodes), evaluation_settings(THRESHOLDS))
    node = next(item for item in builder.cluster().nodes if item.name == "node-a")

    assert {} == node.contention
    assert node.pressure is not None


def test_old_pressure_is_unknown() -> None:
    assert [] == moves_of(waiting_node(0.5, at=NOW - 130))[0]


def test_a_node_with_half_of_the_pressure_is_no_target() -> None:
    moves, plan = moves_of(waiting_node(0.5), waiting_node(0.11, name="node-b", used=1.0))

    assert [] == moves
    assert "node has pressure" in plan.why
