"""What holds for every strategy, whatever the fleet."""

import msgspec
import pytest
from descheduler.fleets import a_fleet, a_loaded_node, a_node, a_pod, names
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.fit import refusal
from equipoise.contracts.messages import Resources, Taint
from equipoise.descheduler.fleet import Fleet, FleetNode, IntentLimits, MovablePod
from equipoise.descheduler.marks import Deviation
from equipoise.descheduler.projection import Projection
from equipoise.descheduler.strategies import STRATEGIES, AnyStrategy, Strategy, name_of
from equipoise.descheduler.strategies.low_node_load import LowNodeLoad

VARIANTS: list[AnyStrategy] = [
    LowNodeLoad(),
    LowNodeLoad(deviation=Deviation()),
    LowNodeLoad(windows=("5m", "1h"), margin=0, target_mark=0, least_relief=0),
]


@st.composite
def pods(draw: st.DrawFn, node: str) -> list[MovablePod]:
    return [
        a_pod(
            f"{node}-{place}",
            cpu=draw(st.none() | st.floats(0, 4)),
            memory=draw(st.floats(0, 20 * 2**30)),
            priority=draw(st.integers(0, 2)),
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
    return a_fleet(*(draw(nodes(f"node-{number}")) for number in range(count)), limits=limits)


def test_every_strategy_is_tried_here() -> None:
    """A strategy that is added to the table is held to the laws, or this fails."""
    assert {name_of(variant) for variant in VARIANTS} == set(STRATEGIES)


@pytest.mark.parametrize("strategy", VARIANTS)
@settings(max_examples=60, deadline=None)
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
        assert source.name in abnormal
        assert source is not target
        assert not move.pod.protection
        assert move.pod.usage.cpu is not None
        assert not source.unknown
        assert not source.source_refusal
        assert not target.unknown
        assert not target.target_refusal
        assert not refusal(move.pod.fit, target.fit, [node.fit for node in fleet.nodes])
        assert move.reason.startswith("node is overutilized, ")
    for node in fleet.nodes:
        assert sum(move.pod.node == node.name for move in plan.moves) + node.leaving <= max(
            fleet.limits.per_node, node.leaving
        )
    assert bool(plan.moves) != bool(plan.why)


@pytest.mark.parametrize("strategy", VARIANTS)
@settings(max_examples=60, deadline=None)
@given(fleet=fleets())
def test_no_target_comes_above_its_mark(strategy: AnyStrategy, fleet: Fleet) -> None:
    """After the whole plan every target is below the ceiling in every resource."""
    plan = strategy.plan(fleet, names(fleet))
    projection = Projection(fleet, strategy.windows_of(fleet)[0])
    for move in plan.moves:
        projection.move(move.pod, move.target)

    ceiling = strategy.levels(fleet).ceiling
    for node in fleet.nodes:
        if any(move.target == node.name for move in plan.moves):
            assert all(projection.load(node)[resource] <= mark + 1e-9 for resource, mark in ceiling.items())


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
        == strategy.plan(a_fleet(*shuffled, limits=fleet.limits), names(fleet)).moves
    )


def test_a_level_fleet_is_left_alone() -> None:
    """No strategy finds something to do where nothing is to be done."""
    fleet = a_fleet(*(a_loaded_node(f"node-{i}", 0.5) for i in range(10)))

    assert all(not strategy.plan(fleet, names(fleet)).moves for strategy in VARIANTS)
