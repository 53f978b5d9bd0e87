"""What holds for every strategy, whatever the fleet."""

import msgspec
import pytest
from descheduler.fleets import THRESHOLDS, a_fleet, a_loaded_node, a_node, a_pod, names
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.fit import refusal
from equipoise.contracts.messages.placement import Taint
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.planning.pools import NodePool
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.decisions.planning.selection import Requirement, Selector
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.decisions.strategies import STRATEGIES, AnyStrategy, Strategy, name_of
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cluster import Fleet, FleetNode, IntentLimits, MovablePod

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

VARIANTS: list[AnyStrategy] = [
    LowNodeLoad(),
    LowNodeLoad(deviation=Deviation()),
    LowNodeLoad(windows=("5m", "1h"), margin=0, target_mark=0, least_relief=0),
    LowNodeLoad(number_of_nodes=-1, node_order="memoryThenCpu", target_mark=100),
    POOLED,
    LevelDay(),
    LevelDay(tolerance=0, least_gain=0, present=0.5, reach=0),
    LevelDay(make_room=False, windows=("1h", "5m")),
    BinPack(),
    BinPack(below=ResourceThresholds(cpu=60), headroom=5),
]


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


@st.composite
def nodes(draw: st.DrawFn, name: str) -> FleetNode:
    node = a_node(
        name,
        draw(pods(name)),
        unknown=draw(st.sampled_from(["", "", "", "silent"])),
        source_refusal=draw(st.sampled_from(["", "", "", "node is being deleted"])),
        target_refusal=draw(st.sampled_from(["", "", "", "node is cordoned"])),
        coming=Resources(cpu=draw(st.floats(-2, 2)), memory=0.0),
        leaving=draw(st.integers(0, 1)),
    )
    taints = [Taint(key="x", effect="NoSchedule")] if draw(st.booleans()) and draw(st.booleans()) else []
    room = draw(st.sampled_from([0.3, 10.0, 10.0]))
    fit = msgspec.structs.replace(node.fit, taints=taints, allocatable={**node.fit.allocatable, "cpu": room})
    return msgspec.structs.replace(node, fit=fit)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(0, 6))
    limits = IntentLimits(per_evaluation=draw(st.integers(1, 8)), per_node=draw(st.integers(1, 4)), per_workload=1)
    thresholds = draw(st.sampled_from([THRESHOLDS, COUNTED]))
    return a_fleet(*(draw(nodes(f"node-{number}")) for number in range(count)), limits=limits, thresholds=thresholds)


def test_every_strategy_is_tried_here() -> None:
    """A strategy that is added to the table is held to the laws, or this fails."""
    assert {name_of(variant) for variant in VARIANTS} == set(STRATEGIES)


@pytest.mark.parametrize("strategy", VARIANTS)
@settings(max_examples=30, deadline=None)
@given(fleet=fleets(), data=st.data())
def test_laws(strategy: Strategy, fleet: Fleet, data: st.DataObject) -> None:
    """Protected pods stay, no pod moves twice, closed and unknown nodes are spared, targets fit, limits hold."""
    abnormal = data.draw(st.sets(st.sampled_from(sorted(names(fleet))))) if fleet.nodes else set()
    by_name = {node.name: node for node in fleet.nodes}
    plan = strategy.plan(fleet, abnormal)

    uids = [move.pod.uid for move in plan.moves]
    assert len(uids) == len(set(uids))
    assert len(plan.moves) <= fleet.limits.per_evaluation
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
        assert not refusal(move.pod.fit, target.fit, [node.fit for node in fleet.nodes])
        assert move.reason.startswith(
            ("node is overutilized, ", "node is underutilized, ", "its day is ", "makes room on ")
        )
    for node in fleet.nodes:
        assert sum(move.pod.node == node.name for move in plan.moves) + node.leaving <= max(
            fleet.limits.per_node, node.leaving
        )
    assert bool(plan.moves) != bool(plan.why)


@pytest.mark.parametrize("strategy", [variant for variant in VARIANTS if not isinstance(variant, LevelDay)])
@settings(max_examples=30, deadline=None)
@given(fleet=fleets())
def test_no_target_comes_above_its_mark(strategy: LowNodeLoad | BinPack, fleet: Fleet) -> None:
    """After the whole plan every target is below its ceilings: as a whole, and by its production pods.

    `level_day` looks at every hour of a day: see its own test.
    """
    plan = strategy.plan(fleet, names(fleet))
    projection = Projection(fleet, strategy.windows_of(fleet)[0], production=True)
    for move in plan.moves:
        projection.move(move.pod, move.target)

    ceilings = strategy.ceilings(fleet)
    for node in fleet.nodes:
        arrived = [move.pod for move in plan.moves if move.target == node.name]
        if arrived:
            load, ceiling = projection.load(node), ceilings[node.name]
            assert all(load[resource] <= mark + 1e-9 for resource, mark in ceiling.node.items())
        if any(pod.production for pod in arrived):
            load = projection.production_load(node)
            assert all(load[resource] <= mark + 1e-9 for resource, mark in ceiling.production.items())


@pytest.mark.parametrize("strategy", VARIANTS)
@settings(max_examples=30, deadline=None)
@given(fleet=fleets(), data=st.data())
def test_the_order_of_what_is_known_does_not_matter(strategy: Strategy, fleet: Fleet, data: st.DataObject) -> None:
    """The same fleet gives the same plan, in whatever order its nodes and pods are told."""
    shuffled = [
        msgspec.structs.replace(node, pods=data.draw(st.permutations(list(node.pods))))
        for node in data.draw(st.permutations(list(fleet.nodes)))
    ]

    assert (
        strategy.plan(fleet, names(fleet)).moves
        == strategy.plan(msgspec.structs.replace(fleet, nodes=shuffled), names(fleet)).moves
    )


def test_a_level_fleet_is_left_alone() -> None:
    """No strategy finds something to do where nothing is to be done."""
    fleet = a_fleet(*(a_loaded_node(f"node-{i}", 0.5) for i in range(10)))

    assert all(not strategy.plan(fleet, names(fleet)).moves for strategy in VARIANTS)
