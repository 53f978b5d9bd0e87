"""What holds for every strategy and every cluster."""

from collections.abc import Mapping, Sequence, Set
from itertools import combinations, product
from typing import Protocol, cast

import msgspec
import pytest
from builders import GIB, NOW
from descheduler.cluster_states import (
    THRESHOLDS,
    a_batch_pod,
    a_cluster,
    a_loaded_node,
    a_node,
    a_pod,
    changed_node,
    names,
    offering,
)
from descheduler.waiting import FULL, resizing_pod, sized_pod, small_node, unschedulable_info
from hypothesis import given, note, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import (
    BatchWorkWeight,
    PressureThresholds,
    ResourceThresholds,
    Thresholds,
)
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.pools import NodePool, Requirement, Selector
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, Deviation
from equipoise.descheduler.decisions.room.pods_without_room import pending_resizes
from equipoise.descheduler.decisions.strategies import STRATEGIES, Strategy
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.decisions.strategies.rules import MoveByRules
from equipoise.descheduler.state.projection import Projection

COUNTED = Thresholds(
    high=ResourceThresholds(cpu=65, memory=80, pods=4),
    low=ResourceThresholds(cpu=45, memory=60),
    prod_high=ResourceThresholds(cpu=30, pods=3),
    prod_low=ResourceThresholds(cpu=20),
)

POOLED = LowNodeLoad(
    number_of_nodes=-1,
    pools=(
        NodePool(
            name="first",
            node_selector=Selector(match_labels={"kubernetes.io/hostname": "node-0"}),
            high=ResourceThresholds(cpu=70),
            prod_high=ResourceThresholds(),
        ),
        NodePool(
            name="middle",
            node_selector=Selector(
                match_expressions=(
                    Requirement(key="kubernetes.io/hostname", operator="In", values=("node-0", "node-1", "node-2")),
                )
            ),
            deviation=Deviation(
                high=ResourceThresholds(cpu=5),
                low=ResourceThresholds(cpu=5),
                prod_high=ResourceThresholds(cpu=8),
                prod_low=ResourceThresholds(cpu=8),
            ),
        ),
    ),
)

VARIANTS: list[Strategy] = [
    *(strategy() for name, strategy in STRATEGIES.items() if name != "rules"),
    MoveByRules(rules=(MetricRule(metric="cpu", operator="GreaterThan", target=50),)),
    LowNodeLoad(deviation=Deviation()),
    LowNodeLoad(windows=("5m", "1h"), margin=0, target_threshold=0, min_load_reduction=0),
    LowNodeLoad(number_of_nodes=-1, node_order="memoryThenCpu", target_threshold=100),
    POOLED,
    LevelDay(threshold=0, min_gain=0, current_load_weight=0.5, max_above_mean=0),
    LevelDay(paired_moves=False, windows=("1h", "5m")),
    BinPack(thresholds=ResourceThresholds(cpu=30), headroom=5),
]
"""Every strategy of the table with its defaults, and some with other settings."""


class WithCeilings(Strategy, Protocol):
    """Declares up to which load it fills a node."""

    def ceilings(self, cluster: ClusterView) -> Mapping[str, Ceilings]: ...


BOUNDED = [cast(WithCeilings, variant) for variant in VARIANTS if hasattr(variant, "ceilings")]


@st.composite
def pods(draw: st.DrawFn, node: str) -> list[MovablePod]:
    return [
        a_pod(
            f"{node}-{place}",
            cpu=draw(st.none() | st.floats(0, 4)),
            memory=draw(st.floats(0, 20 * 2**30)),
            priority=draw(st.integers(0, 2)),
            qos=draw(st.sampled_from(["Burstable", "BestEffort"])),
            belongs_to_node=draw(st.sampled_from([False, False, True])),
            protection=draw(st.sampled_from(["", "", "", "it is not ready"])),
        )
        for place in range(draw(st.integers(0, 6)))
    ]


def disk_users(node: str) -> dict[str, MeasuredPodPressure]:
    return {f"uid-{node}-{place}": MeasuredPodPressure(disk=1e7 * place) for place in range(3)}


@st.composite
def nodes(draw: st.DrawFn, name: str) -> ClusterNode:
    node = a_node(
        name,
        draw(pods(name)),
        unknown=draw(st.sampled_from(["", "", "", "outdated"])),
        source_refusal=draw(st.sampled_from(["", "", "", "node is being deleted"])),
        target_refusal=draw(st.sampled_from(["", "", "", "node is cordoned"])),
        coming=Resources(cpu=draw(st.floats(-2, 2)), memory=0.0),
        leaving=draw(st.integers(0, 1)),
        contention=draw(st.dictionaries(st.sampled_from(["cpu", "memory", "io"]), st.floats(0.21, 1), max_size=2)),
        uncontended=draw(st.sampled_from([frozenset(), frozenset({"cpu"}), frozenset({"cpu", "memory"})])),
        pressure=draw(st.none() | st.just(NodePressure(sampled_at=NOW, pods=disk_users(name)))),
    )
    taints = [Taint(key="x", effect="NoSchedule")] if draw(st.booleans()) and draw(st.booleans()) else []
    room = draw(st.sampled_from([0.3, 10.0, 10.0]))
    return changed_node(node, taints=taints, allocatable={"cpu": room})


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    count = draw(st.integers(0, 6))
    limits = IntentLimits(per_evaluation=draw(st.integers(1, 8)), per_node=draw(st.integers(1, 4)), per_workload=1)
    thresholds = draw(st.sampled_from([THRESHOLDS, COUNTED]))
    thresholds = msgspec.structs.replace(thresholds, pressure=PressureThresholds(cpu=20, memory=20, io=20))
    return a_cluster(
        *(draw(nodes(f"node-{number}")) for number in range(count)),
        limits=limits, thresholds=thresholds, require_pressure=draw(st.booleans()),
    )  # fmt: skip


@settings(deadline=None)
@given(cluster=clusters(), data=st.data())
def test_plans_keep_the_laws(cluster: ClusterView, data: st.DataObject) -> None:
    """Protected pods do not move, no pod moves twice, refused and unknown nodes are excluded, limits hold."""
    abnormal = data.draw(st.sets(st.sampled_from(sorted(names(cluster))))) if cluster.nodes else set()
    for strategy in VARIANTS:
        note(f"{strategy}")
        _assert_laws(strategy, cluster, abnormal)


@st.composite
def clusters_to_shrink(draw: st.DrawFn) -> ClusterView:
    """Some nodes are nearly empty, and others have room.

    `bin_pack` moves the pods of a node only if all of them fit, so clusters() has almost no plan of it.
    """
    limits = IntentLimits(per_evaluation=draw(st.integers(1, 3)), per_node=draw(st.integers(1, 4)), per_workload=1)
    refused = st.sampled_from(["", "", "", "", "", "refused"])

    def small_pod(name: str) -> MovablePod:
        protection = draw(st.sampled_from(["", "", "", "", "", "", "it is not ready"]))
        cpu = draw(st.floats(0, 0.5)) if draw(st.integers(0, 9)) else None
        return a_pod(name, cpu=cpu, memory=2**30, protection=protection)

    sparse = [
        a_node(
            f"sparse-{number}",
            [small_pod(f"sparse-{number}-{place}") for place in range(draw(st.integers(1, 3)))],
            unknown=draw(refused),
            source_refusal=draw(refused),
            leaving=draw(st.integers(0, 1)),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    filled = [
        a_node(
            f"filled-{number}",
            [a_pod(f"filled-{number}", cpu=draw(st.floats(3.5, 6)))],
            unknown=draw(refused),
            target_refusal=draw(refused),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    return a_cluster(*sparse, *filled, limits=limits)


@settings(max_examples=200, deadline=None)
@given(cluster=clusters_to_shrink())
def test_plans_that_empty_nodes_keep_the_laws(cluster: ClusterView) -> None:
    for strategy in VARIANTS:
        if isinstance(strategy, BinPack):
            note(f"{strategy}")
            _assert_laws(strategy, cluster, names(cluster))
            _assert_ceilings(strategy, cluster)


@st.composite
def clusters_with_waiting_pods(draw: st.DrawFn) -> ClusterView:
    """On some nodes the resize of a pod is pending, and some pods have no node."""
    limits = IntentLimits(per_evaluation=draw(st.integers(1, 4)), per_node=draw(st.integers(1, 3)), per_workload=1)
    refused = st.sampled_from(["", "", "", "", "", "refused"])
    sizes = st.sampled_from([0.25, 0.5, 0.75, 1.0, 1.5])

    def resizing(name: str, node: str) -> MovablePod:
        return resizing_pod(
            name,
            draw(st.sampled_from(["250m", "1", "1500m", "2", "3", "6"])),
            node=node,
            reason=draw(st.sampled_from(["Deferred", "Deferred", "Deferred", "Infeasible", "Unknown"])),
            waited=draw(st.sampled_from([600.0, 600.0, 600.0, 1.0, None])),
            reported=draw(st.booleans()),
            priority=draw(st.integers(0, 1)),
            protection=draw(refused),
        )

    def other(name: str) -> MovablePod:
        cpu = draw(st.floats(0, 0.5)) if draw(st.integers(0, 9)) else None
        pod = sized_pod(name, draw(sizes), protection=draw(refused), without_gap=draw(st.booleans()))
        return msgspec.structs.replace(pod, usage=Resources(cpu=cpu, memory=GIB / 10))

    nodes = []
    for number in range(draw(st.integers(2, 4))):
        name = f"node-{number}"
        pods = [resizing(f"{name}-resizing-{place}", name) for place in range(draw(st.integers(0, 2)))]
        pods += [other(f"{name}-{place}") for place in range(draw(st.integers(0, 4)))]
        cores = draw(st.sampled_from([4.0, 4.0, 8.0]))
        node = small_node(name, pods, allocatable={**FULL, "cpu": cores}, unknown=draw(refused))
        going = draw(st.sets(st.sampled_from([pod.uid for pod in pods]), max_size=1)) if pods else set()
        nodes.append(msgspec.structs.replace(node, target_refusal=draw(refused), going=sorted(going)))
    unscheduled = [
        unschedulable_info(f"pending-{number}", {"cpu": draw(sizes)}) for number in range(draw(st.integers(0, 2)))
    ]
    return a_cluster(*nodes, limits=limits, unscheduled=unscheduled)


@settings(max_examples=100, deadline=None)
@given(cluster=clusters_with_waiting_pods(), most=st.integers(1, 3))
def test_plans_that_make_room_keep_the_laws(cluster: ClusterView, most: int) -> None:
    """Also: the moves for a waiting pod leave one node, free what it misses, and are no more than allowed."""
    strategy = MakeRoom(max_pods=most, unschedulable=True)
    _assert_laws(strategy, cluster, set())
    _assert_ceilings(strategy, cluster)

    moves = strategy.plan(cluster, ()).moves
    by_trigger: dict[str, list[PodMove]] = {}
    for move in moves:
        by_trigger.setdefault(move.trigger, []).append(move)
    occupying = {node.name: node.occupying for node in cluster.nodes}
    resizing = {pod.info.uid: pod for node in cluster.nodes for pod in pending_resizes(node)}
    for trigger, for_one in by_trigger.items():
        waiting = resizing.get(trigger.partition(".")[0])
        assert len({move.pod.node for move in for_one}) == 1
        assert len(for_one) <= most
        for move in for_one:
            assert move.pod.uid not in resizing or (waiting is not None and move.pod.uid == waiting.info.uid)
        if waiting is not None and waiting.waits_for == "Deferred":
            node = next(node for node in cluster.nodes if node.name == for_one[0].pod.node)
            moved = {move.pod.uid for move in moves if move.pod.node == node.name}
            left = [info for info in occupying[node.name] if info.uid not in moved and info.uid not in node.going]
            staying = {info.uid for info in left}
            others = [pod for pod in resizing.values() if pod.info.uid in staying and pod.trigger not in by_trigger]
            requested = sum(info.request("cpu") for info in left) - sum(pod.growth.get("cpu", 0) for pod in others)
            assert requested <= 1_000 * node.allocatable["cpu"]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6), free=st.lists(st.integers(0, 16), max_size=3))
def test_as_few_pods_as_possible_make_room(sizes: list[int], free: list[int]) -> None:
    """Compared with all sets. Amounts are quarters of a core; the resize misses three quarters."""
    pods = [sized_pod(f"pod-{number}", size / 4) for number, size in enumerate(sizes)]
    full = small_node("full", [resizing_pod("web", "1500m", node="full"), *pods])
    full = changed_node(full, allocatable={"cpu": 1.5 + sum(sizes) / 4 - 0.75})
    targets = [
        small_node(f"target-{number}", [sized_pod(f"on-{number}", 4.0)], allocatable={**FULL, "cpu": 4.0 + room / 4})
        for number, room in enumerate(free)
    ]
    fewest = next(
        (
            count
            for count in range(1, 4)
            for chosen in combinations(sizes, count)
            if sum(chosen) >= 3
            and any(_fits(chosen, places, free) for places in product(range(len(free)), repeat=count))
        ),
        None,
    )

    moves = MakeRoom(max_pods=3).plan(a_cluster(full, *targets), ()).moves

    if moves:
        assert len(moves) == fewest
    else:
        # The target of each pod is chosen by itself: sets of several may be missed, one pod never.
        assert fewest != 1


def _fits(sizes: Sequence[int], places: Sequence[int], free: Sequence[int]) -> bool:
    return all(
        sum(size for size, place in zip(sizes, places, strict=True) if place == number) <= room
        for number, room in enumerate(free)
    )


def _assert_laws(strategy: Strategy, cluster: ClusterView, abnormal: Set[str]) -> None:
    by_name = {node.name: node for node in cluster.nodes}
    plan = strategy.plan(cluster, abnormal)

    uids = [move.pod.uid for move in plan.moves]
    assert len(uids) == len(set(uids))
    assert len(plan.moves) <= cluster.limits.per_evaluation
    for move in plan.moves:
        source, target = by_name[move.pod.node], by_name[move.target]
        assert source.name in abnormal or move.makes_room_for
        assert source is not target
        assert not move.pod.protection
        assert move.pod.usage.cpu is not None
        assert not source.unknown
        assert not source.source_refusal
        assert not target.unknown
        assert not target.target_refusal
        assert not cluster.fit(cluster.nodes).refuses(move.pod, cluster.nodes.index(target))
        assert move.reason
    for node in cluster.nodes:
        assert sum(move.pod.node == node.name for move in plan.moves) + node.leaving <= max(
            cluster.limits.per_node, node.leaving
        )
    assert bool(plan.moves) != bool(plan.why)


@settings(deadline=None)
@given(cluster=clusters())
def test_no_target_is_above_its_ceiling(cluster: ClusterView) -> None:
    """After the whole plan, as a whole and by its production pods.

    The ceilings of `level_day` are those of each hour: see its own test.
    """
    for strategy in BOUNDED:
        note(f"{strategy}")
        _assert_ceilings(strategy, cluster)


def _assert_ceilings(strategy: WithCeilings, cluster: ClusterView) -> None:
    plan = strategy.plan(cluster, names(cluster))
    projection = Projection(cluster, strategy.windows_of(cluster)[0], production=True)
    for move in plan.moves:
        projection.move(move.pod, move.target)

    ceilings = strategy.ceilings(cluster)
    for node in cluster.nodes:
        arrived = [move.pod for move in plan.moves if move.target == node.name]
        if arrived:
            load, ceiling = projection.load(node), ceilings[node.name]
            assert all(load[resource] <= limit + 1e-9 for resource, limit in ceiling.node.items())
        if any(pod.production for pod in arrived):
            load = projection.production_load(node)
            assert all(load[resource] <= limit + 1e-9 for resource, limit in ceiling.production.items())


@settings(deadline=None)
@given(cluster=clusters(), data=st.data())
def test_the_order_of_nodes_and_pods_does_not_matter(cluster: ClusterView, data: st.DataObject) -> None:
    """The same cluster gives the same plan."""
    shuffled = [
        msgspec.structs.replace(node, pods=data.draw(st.permutations(list(node.pods))))
        for node in data.draw(st.permutations(list(cluster.nodes)))
    ]

    other = msgspec.structs.replace(cluster, nodes=shuffled)
    for strategy in VARIANTS:
        moves = strategy.plan(cluster, names(cluster)).moves
        assert moves == strategy.plan(other, names(cluster)).moves, strategy


@pytest.mark.parametrize("strategy", VARIANTS)
def test_nothing_moves_in_an_even_cluster(strategy: Strategy) -> None:
    cluster = a_cluster(*(a_loaded_node(f"node-{i}", 0.5) for i in range(10)))

    assert not strategy.plan(cluster, names(cluster)).moves


@given(loads=st.lists(st.floats(0, 0.44), min_size=1, max_size=8))
def test_only_strategies_that_level_move_pods_where_no_node_has_to_be_relieved(loads: list[float]) -> None:
    """All nodes are below the low thresholds, and no pod waits. The others may move pods, and some do."""
    cluster = a_cluster(*(a_loaded_node(f"node-{number}", load) for number, load in enumerate(loads)))
    for strategy in VARIANTS:
        if not strategy.levels:
            assert not strategy.plan(cluster, names(cluster)).moves, strategy


def test_a_pool_with_a_deviation_levels() -> None:
    """As the whole strategy does."""
    assert [strategy.levels for strategy in (LowNodeLoad(), LowNodeLoad(deviation=Deviation()), POOLED)] == [
        False,
        True,
        True,
    ]


@st.composite
def colocated_clusters(draw: st.DrawFn) -> ClusterView:
    """Some pods are batch work, and nodes offer the band batch."""
    cluster, changed = draw(clusters()), []
    for node in cluster.nodes:
        batch = [
            a_batch_pod(f"{node.name}-batch-{place}", cpu=draw(st.floats(0, 4)), memory=draw(st.floats(0, 20 * 2**30)))
            for place in range(draw(st.integers(0, 3)))
        ]
        with_batch = a_node(node.name, [*node.pods, *batch], unknown=node.unknown, source_refusal=node.source_refusal)
        changed.append(offering(with_batch, cores=draw(st.sampled_from([0.0, 1.0, 8.0]))))
    return msgspec.structs.replace(cluster, nodes=changed)


FIXED = [each for each in VARIANTS if isinstance(each, LowNodeLoad) and not each.pools and each.deviation is None]
"""Their thresholds do not depend on the other nodes."""


@settings(max_examples=100, deadline=None)
@given(cluster=colocated_clusters())
def test_no_other_pod_leaves_where_batch_work_is_the_excess(cluster: ClusterView) -> None:
    """A node that would not be hot without its batch work keeps its other pods.

    Not if it is hot by the usage of its production pods: batch work is no part of that.
    """
    thresholds = Thresholds(high=cluster.thresholds.high, low=cluster.thresholds.low)
    cluster = msgspec.structs.replace(cluster, thresholds=thresholds)
    alone = {node.name: a_node(node.name, [pod for pod in node.pods if not pod.batch_work]) for node in cluster.nodes}
    without_batch_work = a_cluster(*alone.values(), thresholds=thresholds)

    for strategy in FIXED:
        state = {each.node: each.state for each in strategy.classify(without_batch_work)}
        left = [move for move in strategy.plan(cluster, names(cluster)).moves if not move.pod.batch_work]
        assert all(state[move.pod.node] == "hot" for move in left), strategy


@settings(deadline=None)
@given(cluster=clusters(), weight=st.floats(0, 1))
def test_without_batch_work_its_weight_changes_no_plan(cluster: ClusterView, weight: float) -> None:
    """Also if pods are BestEffort."""
    other = msgspec.structs.replace(cluster, batch_work_weight=BatchWorkWeight(cpu=weight, memory=weight))

    for strategy in VARIANTS:
        assert strategy.plan(cluster, names(cluster)) == strategy.plan(other, names(cluster)), strategy
