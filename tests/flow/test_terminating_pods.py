"""Pods that terminate for a long time: whatever still runs counts, and nothing is moved to its node."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement
from descheduler.cluster import terminating
from descheduler.cluster_states import WINDOWS, a_cluster, a_loaded_node, a_node, names
from descheduler.cluster_states import a_pod as a_movable_pod
from descheduler.snapshots import a_pod, a_snapshot, evaluation_settings

from equipoise.binder.decisions.destination_check import concluded, destination_search
from equipoise.binder.state.cluster_state import NodeState
from equipoise.cli.cluster_now.nodes import nodes_now
from equipoise.cli.cluster_now.spread import spread_of
from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds, Thresholds
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies import AnyStrategy
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.scorer.decisions.load_correction import corrected_load

LONG_AGO = NOW - 100_000
LOAD = LoadSettings()
NOTHING = Resources(cpu=0.0, memory=0.0)
OLD, WEB = Resources(cpu=6.0, memory=8 * GIB), Resources(cpu=2.0, memory=8 * GIB)


def placed_on_node_a(**fields: Any) -> list[PlacedPod]:
    old = a_placed_pod("old-1", placed_at=LONG_AGO, running_since=LONG_AGO, terminating=True, **fields)
    return [old, a_placed_pod("web-2", placed_at=LONG_AGO, running_since=LONG_AGO)]


UTILIZATION = a_node_utilization("node-a", cpu=8.0, pods={"uid-old-1": OLD, "uid-web-2": WEB})


def test_every_window_of_a_score_includes_a_terminating_pod() -> None:
    placement = a_placement("node-a", placed_on_node_a())
    found = corrected_load(UTILIZATION, placement, pod_usage({}, load=LOAD, now=NOW), load=LOAD)

    assert found[0, :, 0].tolist() == pytest.approx([0.8] * len(LOAD.windows))


@pytest.mark.parametrize(
    ("strategy", "source_load"),
    [
        (LowNodeLoad(), 0.9),
        (LevelDay(min_gain=1.0, max_above_mean=0.0, current_load_weight=0.5), 0.7),
        (BinPack(), 0.1),
    ],
)
@pytest.mark.parametrize("ends", [True, False])
def test_no_pod_is_moved_to_a_node_on_which_another_still_terminates(
    strategy: AnyStrategy, source_load: float, ends: bool
) -> None:
    """Of 80 % of node-a, 60 points are of a terminating pod. Once it has ended, node-a is a target."""
    load, terminating = (2.0, NOTHING) if ends else (8.0, OLD)
    usage = Resources(cpu=load, memory=16 * GIB)
    node_a = a_node("node-a", [a_movable_pod("web-1", cpu=2.0)], usage={"5m": usage}, terminating=terminating)
    cluster = a_cluster(node_a, a_loaded_node("node-c", source_load), windows=("5m",))

    plan = strategy.plan(cluster, {"node-c"})

    assert {move.target for move in plan.moves} == ({"node-a"} if ends else set()), plan.why


def test_what_is_shown_of_a_node_includes_a_terminating_pod() -> None:
    """By `equipoise nodes` and `equipoise report`: of 8 cores, 6 are of a pod that may run for hours."""
    pods = [a_pod("web-2", placed_at=LONG_AGO), terminating(a_pod("old-1", placed_at=LONG_AGO), NOW + 3_600)]
    snapshot = a_snapshot(*pods)
    snapshot = msgspec.structs.replace(snapshot, nodes={**snapshot.nodes, "node-a": UTILIZATION})
    cluster = ClusterBuilder(snapshot, evaluation_settings()).cluster()
    shown = nodes_now(cluster.nodes, {}, {}, {}, "5m")
    [node_a] = [node for node in shown if node.node == "node-a"]

    assert (node_a.load.cpu, node_a.usage.cpu) == pytest.approx((0.8, 8.0))
    assert spread_of([node.load for node in shown]).spread.cpu == pytest.approx(0.7)


def test_a_hot_node_whose_load_leaves_with_a_terminating_pod_loses_no_other() -> None:
    """As a source it counts without the pod: what has to leave does so."""
    pods = [a_movable_pod(f"web-{number}", cpu=1.0) for number in range(2)]
    usage = dict.fromkeys(WINDOWS, Resources(cpu=8.0, memory=16 * GIB))
    cluster = a_cluster(a_node("node-a", pods, usage=usage, terminating=OLD), a_loaded_node("node-b", 0.1))
    strategy = LowNodeLoad()

    assert {each.node: each.state for each in strategy.classify(cluster)} == {"node-a": "hot", "node-b": "idle"}
    assert not strategy.plan(cluster, names(cluster)).moves


@pytest.mark.parametrize(("cores", "targets"), [(4.5, set[str]()), (0.0, {"node-b"})])
def test_production_pods_that_terminate_count_for_targets(cores: float, targets: set[str]) -> None:
    """Against the thresholds of production, which are lower than those of the node."""
    production = Resources(cpu=cores, memory=GIB)
    usage = dict.fromkeys(WINDOWS, Resources(cpu=4.5, memory=GIB))
    target = a_node("node-b", usage=usage, terminating=production, terminating_production=production, production=[])
    thresholds = Thresholds(
        high=ResourceThresholds(cpu=90), low=ResourceThresholds(cpu=50), prod_high=ResourceThresholds(cpu=50)
    )

    plan = LowNodeLoad().plan(a_cluster(a_loaded_node("node-a", 0.95), target, thresholds=thresholds), {"node-a"})

    assert {move.target for move in plan.moves} == targets


def no_node(*nodes: NodeState) -> str:
    found = concluded(destination_search(
        "node-c", "node-a", Resources(cpu=1.0, memory=GIB), {node.placement.node: node for node in nodes}, [],
        usage_of=pod_usage({}, load=LOAD, now=NOW), load=LOAD,
        thresholds=Thresholds(high=ResourceThresholds(cpu=65)), now=NOW, skew=0.0,
    ))  # fmt: skip
    return "" if found is None else found.why


def test_a_binder_refuses_a_target_on_which_a_pod_still_terminates() -> None:
    target = NodeState(placement=a_placement("node-a", placed_on_node_a()), utilization=UTILIZATION)

    assert "its cpu load would be 90%" in no_node(target)


def test_what_terminates_on_the_source_is_no_reason_for_a_hotter_target() -> None:
    """Above its threshold a target must be cooler than the source will be."""
    placement = a_placement("node-c", placed_on_node_a())
    utilization = a_node_utilization("node-c", cpu=8.0, pods=UTILIZATION.pods)
    source = NodeState(placement=placement, utilization=utilization)
    target = NodeState(placement=a_placement("node-a"), utilization=a_node_utilization("node-a", cpu=6.0))

    assert "its cpu load would be 70%" in no_node(source, target)
