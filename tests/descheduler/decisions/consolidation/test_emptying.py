"""Which nodes are being emptied: when one is begun, and when it is ended."""

from functools import partial
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from descheduler.cluster_states import node_fit, pod_info
from descheduler.consolidated import BY_DAY, HOURS, World, three_nodes
from descheduler.waiting import unschedulable_info

from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.descheduler.decisions.cluster import ClusterView, IntentLimits
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState, EmptyingStep, next_step
from equipoise.descheduler.state.consolidation.moves import emptying_moves
from equipoise.descheduler.state.consolidation.planner import consolidation_plan

ACT = Consolidation(mode="act", margin=0.0)
EMPTY = EmptyingState()


def step(
    cluster: ClusterView, state: EmptyingState = EMPTY, settings: Consolidation = ACT, **fields: Any
) -> EmptyingStep:
    return next_step(cluster, consolidation_plan(cluster, settings), settings, state, **({"forbidden": ""} | fields))


def begun(name: str = "node-0", since: float = NOW - 600) -> EmptyingState:
    """The state in which this node is being emptied."""
    uid = f"uid-{name}"
    return EmptyingState(nodes={uid: NodeBeingEmptied(node=name, uid=uid, since=since, why="its pod fits")})


def emptying(pods: int = 1, since: float = NOW - 600, **fields: Any) -> World:
    """A node that is being emptied, with as many pods, and one with room."""
    world = World()
    world.node("node-0", taints=[consolidation_taint(since)], **fields)
    for number in range(pods):
        world.pod(f"pod-{number}", "node-0", 0.5)
    world.node("node-1")
    world.pod("stays", "node-1", 1.0, protection="its annotation protects it")
    return world


def test_one_node_is_begun_at_a_time_and_moves_no_pod_yet() -> None:
    """The taint is written first."""
    found = step(three_nodes(1.0).cluster())

    assert [each.node for each in found.state.nodes.values()] == ["node-0"]
    assert next(iter(found.state.nodes.values())).why == "its pod fits on 1 other node in every hour of the day"
    assert found.emptied == []
    again = step(three_nodes(1.0).cluster(), found.state)
    assert again.begun is None
    assert again.why == "node-0 is being emptied, and maxNodes is 1"


def test_pods_move_from_the_next_evaluation_on() -> None:
    cluster = emptying(pods=2).cluster()
    found = step(cluster, begun())
    plan = emptying_moves(cluster, found.emptied, found.why)

    assert sorted(move.pod.name for move in plan.moves) == ["pod-0", "pod-1"]
    assert {move.target for move in plan.moves} == {"node-1"}
    assert plan.moves[0].reason == "empties node-0, which the cluster can do without"


def test_a_pod_in_cooldown_waits_and_the_others_move() -> None:
    world = emptying()
    world.pod("waits", "node-0", 0.1, protection="a pod of its workload was moved recently", postponed=True)
    cluster = world.cluster()
    found = step(cluster, begun())
    plan = emptying_moves(cluster, found.emptied, found.why)

    assert [move.pod.name for move in plan.moves] == ["pod-0"]
    assert ("shop/waits", "a pod of its workload was moved recently") in {(each.pod, each.why) for each in plan.refused}


def test_moves_keep_all_limits() -> None:
    """One pod of a workload, two of a node, and as many in an evaluation as allowed."""
    world = emptying(pods=3)
    shared = a_workload(name="shared")
    for name in ("a", "b"):
        world.pod(name, "node-0", 0.1, workload=shared)
    for limits, most in (((10, 10, 1), 4), ((10, 2, 10), 2), ((1, 10, 10), 1)):
        per_evaluation, per_node, per_workload = limits
        cluster = world.cluster(
            limits=IntentLimits(per_evaluation=per_evaluation, per_node=per_node, per_workload=per_workload)
        )
        found = step(cluster, begun())
        assert len(emptying_moves(cluster, found.emptied, found.why).moves) == most


def test_a_new_leader_goes_on_with_the_node_that_has_the_taint() -> None:
    """Since the time in the taint."""
    found = step(emptying(since=NOW - 3_000).cluster())

    (each,) = found.state.nodes.values()
    assert (each.node, each.since) == ("node-0", NOW - 3_000)
    assert [emptied.node.name for emptied in found.emptied] == ["node-0"]


def test_a_pending_pod_ends_it_and_none_is_begun() -> None:
    """Its node is left out for a while, although its taint may not be removed yet."""
    pending = unschedulable_info("waits", {"cpu": 1.0})
    found = step(emptying().cluster(unscheduled=[pending]), begun())

    assert [(each.node, each.why) for each in found.ended] == [("node-0", "pod shop/waits waits for a node")]
    assert not found.state.nodes
    after = step(emptying().cluster(now=NOW + 60), found.state)
    assert not after.state.nodes
    later = NOW + ACT.retry_interval + 1
    assert step(emptying(since=later).cluster(now=later), after.state).state.nodes


def test_a_day_that_turns_out_hotter_ends_it_before_anything_is_moved() -> None:
    """Another node is forecast above its threshold at eight in the morning."""
    world = emptying()
    world.node("hot")
    world.pod("busy", "hot", 7.0 * BY_DAY)
    found = step(world.cluster(), begun())

    assert [each.node for each in found.ended] == ["node-0"]
    assert "hot is above its threshold, 70.0% cpu at 08:00 UTC" in found.ended[0].why
    assert found.emptied == []


def test_a_target_that_would_be_above_its_threshold_ends_it() -> None:
    """It had room when the node was chosen."""
    world = emptying()
    world.pod("grown", "node-1", 5.1)
    found = step(world.cluster(), begun())

    assert [each.node for each in found.ended] == ["node-0"]


def test_less_than_the_margin_does_not_end_what_was_begun_with_it() -> None:
    """The margin is there to be used up."""
    world = emptying()
    world.pod("grown", "node-1", 4.9)
    strict = Consolidation(mode="act", margin=5.0)

    assert step(world.cluster(), begun(), strict).state.nodes
    assert not step(world.cluster(), EMPTY, Consolidation(mode="act", margin=50.0)).ended


def test_a_pod_that_may_not_move_now_delays_it_until_the_timeout() -> None:
    """A budget that allows no disruption for a while is no reason to move the other pods for nothing."""
    world = emptying()
    world.pod("blocked", "node-0", 0.1, protection="PodDisruptionBudget web allows no disruption")
    waiting = step(world.cluster(), begun())
    late = step(world.cluster(), begun(since=NOW - 7_201))

    assert (len(waiting.state.nodes), waiting.emptied) == (1, [])
    assert late.ended[0].why == (
        "it is not empty after 2h (emptyingTimeout): shop/blocked stays: PodDisruptionBudget web allows no disruption"
    )


def test_an_empty_node_that_no_autoscaler_removes_stops_further_ones() -> None:
    """Even if more nodes may be emptied at a time. The empty node keeps its taint."""
    world = three_nodes(1.0)
    world.node("empty", taints=[consolidation_taint(NOW - 4_000)])
    many = Consolidation(mode="act", margin=0.0, max_nodes=3, removal_timeout=ACT.removal_timeout)
    first = step(world.cluster(), begun("empty"), many)
    later = step(world.cluster(now=NOW + 1_801), first.state, many)

    assert first.begun is not None
    assert later.begun is None
    assert later.stalled.startswith("empty has been empty for 30 min, and no autoscaler removed it")
    assert "uid-empty" in later.state.nodes


def test_a_node_that_was_removed_makes_room_for_the_next() -> None:
    found = step(three_nodes(1.0).cluster(), begun("gone"))

    assert not found.ended
    assert [each.node for each in found.state.nodes.values()] == ["node-0"]


def test_a_new_node_of_the_same_name_is_not_the_one_that_was_chosen() -> None:
    state = EmptyingState(nodes={"other": NodeBeingEmptied(node="node-2", uid="other", since=NOW - 60, why="")})

    assert "other" not in step(three_nodes(1.0).cluster(), state).state.nodes


def test_an_annotation_that_forbids_the_removal_ends_it() -> None:
    world = emptying(annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})

    assert "forbids its removal" in step(world.cluster(), begun()).ended[0].why


def test_an_unknown_load_delays_it_until_the_timeout() -> None:
    """One sample that is missing is no reason to leave a node half empty for hours."""
    world = emptying(unknown="no sample within 180 s")
    waiting = step(world.cluster(), begun())

    assert (len(waiting.state.nodes), waiting.ended, waiting.emptied) == (1, [], [])
    (late,) = step(world.cluster(), begun(since=NOW - 7_201)).ended
    assert late.why == "it is not empty after 2h (emptyingTimeout): no sample within 180 s"


def test_the_leader_needs_no_taint_to_know_which_node_it_empties() -> None:
    """Whoever writes the taint may be late, or have no permission."""
    world = three_nodes(1.0)
    world.node("node-x", being_emptied=True, source_refusal="in cooldown after 3 evictions")
    world.pod("pod-x", "node-x", 0.5)
    found = step(world.cluster(), begun("node-x"))

    assert not found.ended
    assert [emptied.node.name for emptied in found.emptied] == ["node-x"]


def test_nothing_is_begun_or_ended_while_too_few_loads_are_known() -> None:
    """The word that a node is being emptied stays valid, and nothing moves."""
    found = step(emptying().cluster(), begun(), waiting="1 of 3 nodes are fresh")

    assert (found.state, found.emptied, found.why) == (begun(), (), "1 of 3 nodes are fresh")


def test_everything_ends_when_consolidation_may_not_act() -> None:
    found = step(emptying().cluster(), begun(), forbidden="consolidation.mode is observe")

    assert [each.why for each in found.ended] == ["consolidation.mode is observe"]
    assert (found.begun, found.emptied) == (None, [])


@pytest.mark.parametrize("present", [True, False])
def test_a_node_above_its_threshold_prevents_that_any_is_begun(present: bool) -> None:
    """Forecast, and also measured now: then its day is the same, and its present load is higher."""
    world = three_nodes(1.0)
    world.node("hot")
    world.pod("busy", "hot", 2.0 if present else 7.0 * (HOURS == 3))
    cluster = world.cluster()
    if present:
        nodes = [
            msgspec.structs.replace(node, coming=msgspec.structs.replace(node.coming, cpu=5.0))
            if node.name == "hot"
            else node
            for node in cluster.nodes
        ]
        cluster = msgspec.structs.replace(cluster, nodes=nodes)

    found = step(cluster)
    assert found.begun is None
    assert ("now" if present else "03:00 UTC") in found.why


def test_a_pod_that_kube_scheduler_would_place_elsewhere_is_not_moved() -> None:
    """Without scores of Equipoise it prefers the node with the fewest requests, whose load is unknown here."""
    world = emptying()
    world.pod("large", "node-1", 0.1, info=pod_info("large", {"cpu": 5.0, "memory": 40 * GIB}), protection="it stays")
    world.node("idle", unknown="no sample")
    cluster = world.cluster(fit=partial(node_fit, target_points=0))
    found = step(cluster, begun())
    plan = emptying_moves(cluster, found.emptied, found.why)

    assert not plan.moves
    assert "kube-scheduler would prefer another node" in plan.why
    assert emptying_moves(world.cluster(), found.emptied, found.why).moves
