"""Further resources in plans: nodes that are hot in one are relieved of the pods that use it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization
from descheduler.cluster_states import THRESHOLDS, WINDOWS, a_cluster, a_node, a_pod, moved, names
from descheduler.snapshots import a_pod as a_pod_object
from descheduler.snapshots import a_snapshot, evaluation_settings
from descheduler.state.test_cluster_builder import a_move
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import FurtherResource, FurtherThresholds, LoadSettings, Thresholds
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.utilization import NodeUtilization, ResourceStatus, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.decisions.strategies import Strategy, name_of
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.decisions.strategies.rules import MoveByRules
from equipoise.descheduler.state.abnormal_counts import AbnormalCount
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.moves.pending_moves import PendingMoves

NETWORK = {"network": FurtherThresholds(high=70, low=40)}
LIMITED = msgspec.structs.replace(THRESHOLDS, resources=NETWORK)


def sending(name: str, share: float | None, cpu: float = 0.2) -> MovablePod:
    """A pod that sends this share of what a node can send."""
    further = None if share is None else {"network": share * 100.0}
    return a_pod(name, usage=Resources(cpu=cpu, memory=GIB, further=further))


def a_sending_node(
    name: str, load: float | None, pods: Sequence[MovablePod] = (), *, cpu: float = 2.0, **fields: Any
) -> ClusterNode:
    """A node that sends this share of 100 units; None: it is not known how much."""
    further = None if load is None else {"network": 100.0 * load}
    usage = Resources(cpu=cpu, memory=8 * GIB, further=further)
    defaults: dict[str, Any] = {
        "base": Resources(cpu=10.0, memory=64 * GIB, further={"network": 100.0}),
        "usage": dict.fromkeys(WINDOWS, usage),
        "resources": {"network": "" if load is not None else "no sample"},
    }
    return a_node(name, pods, **(defaults | fields))


def a_sending_cluster(*nodes: ClusterNode) -> ClusterView:
    return a_cluster(*nodes, thresholds=LIMITED, further=("network",))


def classified(cluster: ClusterView) -> Mapping[str, NodeClassification]:
    return {node.node: node for node in LowNodeLoad().classify(cluster)}


def moves(cluster: ClusterView) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in LowNodeLoad().plan(cluster, names(cluster)).moves]


def test_a_node_is_hot_in_one_resource_and_idle_in_three() -> None:
    """One threshold suffices, and the reason names it."""
    states = classified(a_sending_cluster(a_sending_node("busy", 0.9), a_sending_node("quiet", 0.1)))
    assert ("hot", ["network"], "node is hot: network 90.0% is above 70%") == (
        states["busy"].state, states["busy"].over, states["busy"].why
    )  # fmt: skip
    assert "idle" == states["quiet"].state
    assert {"network": 0.9} == states["busy"].load.further


def test_a_node_whose_load_of_the_resource_is_unknown_is_neither_idle_nor_hot() -> None:
    """GPUs that vanish: the reason is that of the collector. Its other resources still count."""
    states = classified(a_sending_cluster(a_sending_node("a", None), a_sending_node("b", None, cpu=9.0)))
    assert ("unknown", "no network usage over 5m (network: no sample)") == (states["a"].state, states["a"].why)
    assert ("hot", ["cpu"]) == (states["b"].state, states["b"].over)


def test_a_node_without_the_resource_is_classified_by_the_others() -> None:
    """A node without a GPU lacks nothing."""
    plain = a_sending_node("plain", None, resources={})
    assert "idle" == classified(a_sending_cluster(plain, a_sending_node("busy", 0.9)))["plain"].state


def test_the_pods_that_use_the_resource_leave_until_the_node_is_below_its_threshold() -> None:
    """The ones that use only CPU stay, although they use more of it."""
    pods = [sending("sends-1", 0.3), sending("sends-2", 0.3), sending("computes", 0.0, cpu=2.0)]
    cluster = a_sending_cluster(a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1))
    assert [("sends-1", "quiet")] == moves(cluster)
    assert [] == moves(moved(cluster, LowNodeLoad().plan(cluster, names(cluster)).moves))


def test_a_target_is_not_filled_above_its_threshold_of_the_resource() -> None:
    """Whichever resource the pod moves for: the coolest node in CPU is full in network."""
    pods = [sending(f"pod-{number}", 0.15, cpu=3.0) for number in range(3)]
    hot = a_sending_node("hot", 0.45, pods, cpu=9.0)
    busy, quiet = a_sending_node("busy", 0.65, cpu=0.5), a_sending_node("quiet", 0.1, cpu=2.0)
    assert {"quiet"} == {target for _, target in moves(a_sending_cluster(hot, busy, quiet))}


def test_a_node_of_unknown_load_is_no_target_and_one_without_the_resource_is() -> None:
    """As a destination, a node of unknown load is full."""
    pods = [sending("sends", 0.3)]
    base = Resources(cpu=10.0, memory=64 * GIB)
    unknown, plain = a_sending_node("unknown", None), a_sending_node("plain", None, resources={}, base=base, cpu=3.0)
    cluster = a_sending_cluster(a_sending_node("busy", 0.9, pods), unknown, plain)
    assert [("sends", "plain")] == moves(cluster)


def test_without_a_query_about_pods_no_pod_is_moved_for_the_resource() -> None:
    """It is not known which one would relieve the node; for CPU, the same pods may move."""
    pods = [sending("a", None, cpu=3.0), sending("b", None, cpu=3.0)]
    cluster = a_sending_cluster(a_sending_node("busy", 0.9, pods), a_sending_node("quiet", 0.1))
    plan = LowNodeLoad().plan(cluster, names(cluster))
    assert () == tuple(plan.moves)
    assert {"its usage of network is not known"} == {refused.why for refused in plan.refused}

    of_cpu = a_sending_cluster(a_sending_node("hot", 0.5, pods, cpu=9.0), a_sending_node("quiet", 0.1))
    assert 1 == len(moves(of_cpu))


def test_a_node_that_everything_loads_equally_moves_nothing() -> None:
    """No target remains below its threshold."""
    pods = [sending("sends", 0.3)]
    cluster = a_sending_cluster(a_sending_node("a", 0.9, pods), a_sending_node("b", 0.69))
    assert [] == moves(cluster)


# From the messages of the collector


def sent(
    node: str, amount: float | None, *, age: float = 5.0, pods: Mapping[str, float] | None = None
) -> NodeUtilization:
    """A node that can send 100 units per second and uses one core."""
    utilization = a_node_utilization(node, cpu=8.0 if node == "node-a" else 1.0)
    further = None if amount is None else {"network": amount}
    windows = {
        name: WindowUsage(sampled_at=usage.sampled_at, mean=msgspec.structs.replace(usage.mean, further=further))
        for name, usage in utilization.windows.items()
    }
    return msgspec.structs.replace(
        utilization,
        base=msgspec.structs.replace(utilization.base, further={"network": 100.0}),
        windows=windows,
        pods={uid: Resources(cpu=1.0, memory=GIB, further={"network": value}) for uid, value in (pods or {}).items()},
        resources={"network": ResourceStatus(sampled_at=NOW - age, unknown="" if amount is not None else "no sample")},
    )


def nodes_of(
    *utilizations: NodeUtilization, load: LoadSettings | None = None, pending: PendingMoves | None = None
) -> dict[str, ClusterNode]:
    pod = a_pod_object("web-1")
    snapshot = a_snapshot(pod, pending=pending or {})
    snapshot = msgspec.structs.replace(snapshot, nodes={each.node: each for each in utilizations})
    settings = evaluation_settings(Thresholds(resources=NETWORK))
    settings = settings if load is None else msgspec.structs.replace(settings, load=load)
    return {node.name: node for node in ClusterBuilder(snapshot, settings).cluster().nodes}


@pytest.mark.parametrize(
    ("amount", "age", "why"),
    [
        (50.0, 5.0, ""),
        (90.0, 5.0, "its network load is 90%, above 70%"),
        (None, 5.0, "its network load is unknown: no sample"),
        (50.0, 150.0, "its network load is unknown: newest sample is 150 s old"),
    ],
)
def test_a_node_that_is_hot_or_unknown_in_a_resource_is_no_target(amount: float | None, age: float, why: str) -> None:
    """This holds for every strategy, whether it plans with the resource or not. An eviction needs fresh samples."""
    assert why == nodes_of(sent("node-a", 10.0), sent("node-b", amount, age=age))["node-b"].target_refusal


def test_a_node_without_a_resource_that_it_should_have_is_no_target() -> None:
    """A collector with an earlier configuration does not measure it, which does not mean that the node has none."""
    silent = msgspec.structs.replace(a_node_utilization("node-b"), resources={})
    network = FurtherResource(node="rate(sent[$window])", capacity=100.0)
    node = nodes_of(sent("node-a", 10.0), silent, load=LoadSettings(resources={"network": network}))["node-b"]
    assert "its network load is unknown: the collector does not measure it" == node.target_refusal
    assert "" == nodes_of(sent("node-a", 10.0), silent)["node-b"].target_refusal


def test_a_pending_move_takes_the_usage_from_one_node_to_the_other() -> None:
    """Before anything is measured."""
    move = a_move(expected_reduction=Resources(cpu=2.0, memory=GIB, further={"network": 30.0}))
    utilizations = sent("node-a", 90.0, pods={"uid-web-1": 30.0}), sent("node-b", 10.0)
    nodes = nodes_of(*utilizations, pending={"intent": move})
    assert ({"network": -30.0}, {"network": 30.0}) == (nodes["node-a"].coming.further, nodes["node-b"].coming.further)


def test_the_usage_of_a_pod_moves_with_it() -> None:
    """The load of a node without a pod, and of the pod, come from the messages."""
    node = nodes_of(sent("node-a", 90.0, pods={"uid-web-1": 30.0}), sent("node-b", 10.0))["node-a"]
    assert {"network": 0.9} == node.load("5m").further
    assert {"network": 30.0} == node.pods[0].usage.further


AMOUNTS = st.none() | st.sampled_from([0.0, 10.0, 69.9, 70.0, 90.0, 150.0])
STRATEGIES = (
    LowNodeLoad(),
    LowNodeLoad(deviation=Deviation()),
    MoveByRules(rules=(MetricRule(metric="network", operator="GreaterThan", target=60),)),
    BinPack(),
    LevelDay(current_load_weight=1.0),
)


@given(
    amounts=st.tuples(AMOUNTS, AMOUNTS, AMOUNTS),
    ages=st.tuples(*[st.sampled_from([5.0, 5.0, 200.0])] * 3),
    capacity=st.sampled_from([None, 0.0, 100.0]),
    strategy=st.sampled_from(STRATEGIES),
    mode=st.sampled_from(["off", "observe", "act"]),
)
def test_whatever_is_measured_no_target_is_hot_in_the_resource_or_unknown(
    amounts: tuple[float | None, ...],
    ages: tuple[float, ...],
    capacity: float | None,
    strategy: Strategy,
    mode: Literal["off", "observe", "act"],
) -> None:
    """In whole evaluations, consolidation included. `capacity`: that of the last node."""
    nodes = ("node-a", "node-b", "node-c")
    measured = {
        name: sent(name, amount, age=age, pods={"uid-web-1": 30.0} if name == "node-a" else None)
        for name, amount, age in zip(nodes, amounts, ages, strict=True)
    }
    further = None if capacity is None else {"network": capacity}
    last = measured["node-c"]
    measured["node-c"] = msgspec.structs.replace(last, base=msgspec.structs.replace(last.base, further=further))
    count = AbnormalCount(abnormal=4, evaluated_at=NOW - 120, sampled_at=NOW - 120, abnormal_at=NOW - 120)
    counts = {name_of(strategy): dict.fromkeys(nodes, count)}
    snapshot = msgspec.structs.replace(a_snapshot(a_pod_object("web-1"), nodes=nodes), nodes=measured, counts=counts)
    settings = msgspec.structs.replace(
        evaluation_settings(Thresholds(resources=NETWORK)),
        strategies=(strategy,),
        consolidation=Consolidation(mode=mode),
    )
    for result in evaluate(snapshot, settings).results:
        for move in result.plan.moves:
            target = measured[move.target]
            sent_by_target = (target.windows["5m"].mean.further or {}).get("network")
            assert sent_by_target is not None
            assert sent_by_target <= 70.0
            assert NOW - target.resources["network"].sampled_at <= 120
            assert (target.base.further or {}).get("network")
