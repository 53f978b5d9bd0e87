"""The state of the live views: what it shows for the messages it received."""

import random
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_window, an_intent
from hypothesis import given
from hypothesis import strategies as st

from equipoise.cli.views import history, moves
from equipoise.cli.views import state as live
from equipoise.cli.views.feed import plan_row
from equipoise.cli.views.nodes import NO_USAGE, NO_WINDOW, NOT_MEASURED, NOT_READY, TOO_OLD
from equipoise.cli.views.rows import Changes, MoveRow, NodeRow
from equipoise.cli.views.state import LiveState
from equipoise.cli.views.terminal.screen_text import move_cells, planned_lines
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Freshness, LoadSettings
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    DryRunMove,
    LoadReduction,
    NodeClassification,
    ProposedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.plan import PlannedMove, PlannedNode, PlanResponse
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources


def a_state(*messages: Any, now: float = NOW) -> LiveState:
    state = LiveState(LoadSettings())
    for message in messages:
        state.apply(message, now)
    state.tick(now)
    return state


def a_row(state: LiveState, node: str = "node-a") -> NodeRow:
    row = state.row(node)
    assert row is not None
    return row


def the_move(state: LiveState) -> MoveRow:
    (move,) = state.moves
    return move


def changes_of(state: LiveState) -> Changes:
    changes = state.take_changes()
    assert changes is not None
    return changes


def a_cycle(**fields: Any) -> UtilizationCycle:
    defaults: dict[str, Any] = {"shard": "all", "cycle": 1, "expected": 2, "fresh": 2, "queried_at": NOW}
    return UtilizationCycle(**(defaults | fields))


def an_outcome(outcome: Outcome = Outcome.EVICTED, **fields: Any) -> EvictionOutcome:
    intent = an_intent()
    defaults: dict[str, Any] = {
        "intent_id": intent.id,
        "outcome": outcome,
        "pod_uid": intent.pod_uid,
        "namespace": intent.namespace,
        "pod": intent.pod,
        "node": intent.node,
        "target": intent.target,
        "reason": intent.reason,
        "expected_reduction": intent.expected_reduction,
        "decided_at": intent.decided_at,
        "settled_at": NOW + 1,
    }
    return EvictionOutcome(**(defaults | fields))


def a_decision(*states: tuple[str, Any], strategy: str = "low_node_load", **fields: Any) -> DescheduleDecision:
    nodes = [
        NodeClassification(node=node, state=state, load=Resources(cpu=0.9, memory=0.4), sampled_at=NOW - 5)
        for node, state in states
    ]
    return DescheduleDecision(
        **({"strategy": strategy, "evaluated_at": NOW, "nodes": nodes, "intents": []} | fields)  # type: ignore[arg-type]
    )


def a_heartbeat(service: str = "binder", id: str = "binder-1", **fields: Any) -> Heartbeat:
    return Heartbeat(**({"service": service, "id": id, "version": "1", "ready": True, "at": NOW} | fields))


def test_a_node_shows_its_load_and_its_requests() -> None:
    """Load is a share of the base, requests one of the allocatable amount."""
    state = a_state(a_node_utilization(cpu=7.5, memory=16 * GIB), a_placement(pods=[a_placed_pod(), a_placed_pod("b")]))

    assert NodeRow("node-a", 0.75, 0.25, "", 0.1, 0.031, 2) == a_row(state)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([a_placement()], NOT_MEASURED),
        ([a_placement(ready=False)], NOT_READY),
        ([a_node_utilization(sampled_at=NOW - 181)], TOO_OLD),
        ([a_node_utilization(sampled_at=NOW + 60)], TOO_OLD),
        ([a_node_utilization(windows={})], NO_WINDOW),
        ([a_node_utilization(base=Resources(cpu=10))], "the node offers no memory, or it is not known how much"),
        ([a_node_utilization(cpu=float("nan"))], NO_USAGE),
        ([a_cycle(missing={"node-a": "no sample"})], "no sample"),
        ([a_placement(), a_cycle(missing={"node-a": "no sample"})], "no sample"),
    ],
)
def test_what_is_not_measured_is_unknown_and_says_why(messages: list[Any], why: str) -> None:
    """It is never 0."""
    row = a_row(a_state(*messages))

    assert why == row.unknown
    assert None in (row.cpu, row.memory)
    assert 0 not in (row.cpu, row.memory)


def test_without_a_placement_requests_and_pods_are_unknown() -> None:
    """A node without pods has 0 of both."""
    row, empty = a_row(a_state(a_node_utilization())), a_row(a_state(a_placement()))

    assert (None, None, None) == (row.cpu_requests, row.memory_requests, row.pods)
    assert (0.0, 0.0, 0) == (empty.cpu_requests, empty.memory_requests, empty.pods)


def test_a_sample_becomes_unknown_with_time() -> None:
    """Without any message."""
    state = a_state(a_node_utilization())
    changes_of(state)

    state.tick(NOW + 179)
    assert state.take_changes() is None or "" == a_row(state).unknown
    state.tick(NOW + 181)

    assert [NodeRow("node-a", unknown=TOO_OLD)] == changes_of(state).nodes


def test_an_older_message_changes_nothing() -> None:
    """The bus may deliver late."""
    state = a_state(
        a_node_utilization(cpu=5.0, sequence=2),
        a_node_utilization(cpu=1.0, sequence=1),
        a_placement(pods=[a_placed_pod()], sequence=2),
        a_placement(sequence=1),
    )

    assert (0.5, 1) == (a_row(state).cpu, a_row(state).pods)


def test_a_removed_node_is_gone() -> None:
    """An older removal, or one of another node with this name, does not remove it."""
    state = a_state(a_placement(sequence=5), a_node_utilization())
    changes_of(state)
    for late in (a_placement(removed=True, sequence=4), a_placement(removed=True, sequence=6, uid="an earlier node")):
        state.apply(late, NOW)
    state.tick(NOW)
    assert state.row("node-a") is not None

    state.apply(a_placement(removed=True, sequence=6), NOW)
    state.tick(NOW)

    assert ["node-a"] == changes_of(state).removed
    assert [] == state.everything().nodes


def test_a_removed_node_that_a_cycle_no_longer_misses_is_gone() -> None:
    """Both messages arrive within a second."""
    state = a_state(a_placement(), a_cycle(missing={"node-a": "no sample"}))
    changes_of(state)

    state.apply(a_placement(removed=True, sequence=2), NOW)
    state.apply(a_cycle(cycle=2, sequence=2, queried_at=NOW + 1), NOW + 1)
    state.tick(NOW + 1)

    assert ["node-a"] == changes_of(state).removed
    assert [] == state.everything().nodes


def test_a_node_that_nobody_mentions_any_longer_is_gone() -> None:
    """While collectors measure; if they are down, all nodes stay, unknown."""
    state = a_state(a_placement())
    state.tick(NOW + 3_700)
    assert state.row("node-a") is not None

    state.apply(a_cycle(queried_at=NOW + 3_700), NOW + 3_700)
    state.tick(NOW + 3_701)

    assert state.row("node-a") is None


def test_only_what_changed_is_sent() -> None:
    """A load that differs by less than 0.1 % is the same."""
    state = a_state(a_node_utilization("node-a", cpu=5.0), a_node_utilization("node-b", cpu=5.0))
    assert ["node-a", "node-b"] == sorted(row.node for row in changes_of(state).nodes)

    state.apply(a_node_utilization("node-a", cpu=5.001, sequence=2), NOW)
    state.apply(a_node_utilization("node-b", cpu=6.0, sequence=2), NOW)
    state.tick(NOW)

    assert ["node-b"] == [row.node for row in changes_of(state).nodes]
    assert state.take_changes() is None


def test_a_move_is_followed_from_its_intent_to_its_effect() -> None:
    """In any order of the messages that the bus may have."""
    proposed = ProposedMove(
        intent_id="intent-web-1", namespace="shop", pod="web-1", pod_uid="uid-web-1", node="node-a", target="node-b",
        reason="hot", expected_reduction=Resources(), sampled_at=NOW, expires_at=NOW + 180,
    )  # fmt: skip
    placed = ReplacementPlaced(
        intent_id="intent-web-1", namespace="shop", pod="web-1", node="node-a", target="node-b",
        replacement="web-2", placed_on="node-c",
    )  # fmt: skip
    reduction = LoadReduction(
        node="node-a", intents=["intent-web-1"], over=["cpu"], before=Resources(), after=Resources(),
        expected=Resources(), reduced=True,
    )  # fmt: skip
    before = [an_intent(), an_outcome(), a_decision(moves=[proposed])]
    random.Random(1).shuffle(before)

    move = the_move(a_state(*before, a_decision(replacements=[placed], load_reductions=[reduction])))

    assert ("evicted", "low_node_load", "web-2", "node-c") == (
        move.outcome, move.strategy, move.replacement, move.placed_on,
    )  # fmt: skip
    assert move.reduced


def test_a_refused_move_names_the_limit() -> None:
    """And when it may be tried again."""
    refused = an_outcome(Outcome.REJECTED_LIMIT, limit="perNamespace", detail="5 of 5", retry_at=NOW + 60)

    move = the_move(a_state(an_intent(), refused))

    assert ("rejected_limit", "perNamespace", "5 of 5", NOW + 60) == (
        move.outcome, move.limit, move.detail, move.retry_at,
    )  # fmt: skip


def test_a_move_without_a_gap_is_shown_as_such_and_may_outlast_its_intent() -> None:
    """Its replacement must become ready first. What the binder did is in the outcome."""
    intent = msgspec.structs.replace(an_intent(), without_gap=True)
    state = a_state(intent)
    state.tick(intent.expires_at + 600)
    assert (the_move(state).outcome, the_move(state).without_gap) == ("", True)
    assert move_cells(the_move(state))[-1].startswith("without a gap: ")
    state.tick(intent.expires_at + 4_000)
    assert the_move(state).outcome == "unknown"
    assert not the_move(a_state(intent, an_outcome())).without_gap


WORTH: dict[str, Any] = {"gain": 0.062, "cost": MoveCost(memory=1.5 * GIB, age=3 * 86_400.0, start=12.0)}
WORTH_TEXT = "6.2 points; 1.50 GiB, 3 d old, ready in 12 s"


@pytest.mark.parametrize("first", ["intent", "outcome", "decision"])
def test_a_move_shows_what_it_gains_and_costs_whichever_message_arrives_first(first: str) -> None:
    """Messages of earlier versions state neither, and nothing is shown then."""
    proposed = converted(an_intent(), ProposedMove, intent_id=an_intent().id, **WORTH)
    messages = {
        "intent": msgspec.structs.replace(an_intent(), **WORTH),
        "outcome": an_outcome(**WORTH),
        "decision": a_decision(moves=[proposed]),
    }
    ordered = sorted(messages, key=lambda name: name != first)

    state = a_state(*(messages[name] for name in ordered))

    assert the_move(state).gain_and_cost == WORTH_TEXT
    assert f"({WORTH_TEXT})" in move_cells(the_move(state))[-1]
    assert the_move(a_state(an_intent())).gain_and_cost == ""


def test_a_plan_shows_what_each_move_gains_and_costs_and_ends_in_one_sentence() -> None:
    """As `equipoise plan` does."""
    planned = converted(an_intent(), PlannedMove, strategy="low_node_load", **WORTH)
    later = msgspec.structs.replace(planned, pod="web-9", gain=None, cost=None, without_gap=True, later=True)

    row = plan_row(a_plan(moves=[planned, later]))
    one, two, sentence = planned_lines(row)

    assert one.endswith(f"{planned.reason} ({WORTH_TEXT})")
    assert two.endswith(f"later: without a gap: {planned.reason}")
    assert row.sentence == sentence
    assert sentence.startswith("In sum: 2 pods would be moved, 1 of them without a gap. Risked: 1 pod is missing")
    assert not plan_row(a_plan()).sentence


def test_a_move_without_an_outcome_is_unknown_after_its_expiry() -> None:
    """Not refused, and not evicted."""
    state = a_state(an_intent())
    state.tick(NOW + 239)
    assert "" == the_move(state).outcome

    state.tick(NOW + 241)
    assert "unknown" == the_move(state).outcome

    state.apply(an_outcome(), NOW + 242)
    assert "evicted" == the_move(state).outcome


def test_the_most_urgent_class_of_all_strategies_is_shown() -> None:
    """And none any longer when no strategy classifies the node."""
    state = a_state(a_node_utilization(), a_decision(("node-a", "idle"), strategy="bin_pack"))
    assert "idle" == a_row(state).state
    state.apply(a_decision(("node-a", "hot")), NOW)
    state.tick(NOW)
    assert "hot" == a_row(state).state

    state.apply(a_decision(evaluated_at=NOW + 60), NOW)
    state.tick(NOW)

    assert "idle" == a_row(state).state


def test_the_load_of_an_evaluation_is_used_until_a_measurement_is_received() -> None:
    """The view of a cluster is not empty for a whole cycle."""
    state = a_state(a_decision(("node-a", "hot")))
    assert (0.9, 0.4) == (a_row(state).cpu, a_row(state).memory)

    state.apply(a_node_utilization(cpu=5.0, memory=32 * GIB), NOW)
    state.apply(a_decision(("node-a", "hot"), evaluated_at=NOW + 60), NOW)
    state.tick(NOW)

    assert (0.5, 0.5) == (a_row(state).cpu, a_row(state).memory)


def a_plan(*nodes: PlannedNode, **fields: Any) -> PlanResponse:
    leader = LeaseEpoch(lease_uid="lease", transitions=1, holder="descheduler-1")
    return PlanResponse(**({"leader": leader, "planned_at": NOW + 10, "nodes": list(nodes)} | fields))  # type: ignore[arg-type]


def a_planned_node(node: str, strategy: str = "low_node_load", state: Any = "hot", cpu: float = 0.652) -> PlannedNode:
    load = Resources(cpu=cpu, memory=0.4)
    return PlannedNode(strategy=strategy, node=node, state=state, before=load, after=load, missing_evaluations=3)


def test_all_of_the_view_has_the_nodes_of_the_plan() -> None:
    """Which are hot, and their loads: the plan is newer than the last evaluation, and corrected for pods that left."""
    state = a_state(
        a_node_utilization("node-a", cpu=8.2),
        a_node_utilization("node-b", cpu=2.0),
        a_node_utilization("node-c", cpu=7.0),
        a_decision(("node-b", "between"), ("node-c", "hot")),
    )
    plan = a_plan(a_planned_node("node-a"), a_planned_node("node-b"), a_planned_node("node-b", "level_day"))
    state.plan(plan)
    state.tick(NOW + 11)

    assert [a_row(state, name).state for name in ("node-a", "node-b", "node-c")] == ["hot", "hot", "between"]
    assert [a_row(state, name).cpu for name in ("node-a", "node-b", "node-c")] == [0.652, 0.652, 0.7]
    summary = changes_of(state).summary
    assert summary is not None
    assert summary.hot == plan_row(plan).waiting == 2
    assert summary.evaluated_at == NOW + 10

    state.apply(
        a_node_utilization("node-a", cpu=8.1, sampled_at=NOW + 100, queried_at=NOW + 100, sequence=9), NOW + 101
    )
    state.tick(NOW + 101)
    assert a_row(state).cpu == 0.81, "a plan is not shown for longer than it is current"


def test_a_plan_that_lacks_nodes_changes_no_other_nodes() -> None:
    """It is shortened, or has as many as it may have."""
    for fields in ({"shortened": "100 nodes"}, {"nodes": [a_planned_node(f"other-{i}") for i in range(500)]}):
        state = a_state(a_node_utilization("node-c"), a_decision(("node-c", "hot")))
        state.plan(a_plan(**fields))
        state.tick(NOW + 11)

        assert a_row(state, "node-c").state == "hot"


def test_the_load_of_a_node_is_measured_where_dry_runs_would_have_changed_it() -> None:
    """The plan counts their moves as done; they did not happen."""
    state = a_state(a_node_utilization("node-a", cpu=8.2))
    dry_run = DryRunMove(namespace="shop", pod="web-1", node="node-a", target="node-b", since=NOW - 60, until=NOW + 60)
    plan = a_plan(a_planned_node("node-a"), dry_run_moves=[dry_run])
    state.plan(plan)
    state.tick(NOW + 11)

    assert (a_row(state).cpu, plan_row(plan).dry_run_moves) == (0.82, 1)


def test_a_node_that_is_unknown_in_an_evaluation_says_why() -> None:
    """The reason of the descheduler."""
    node = NodeClassification(node="node-a", state="unknown", load=Resources(), why="no placement", sampled_at=NOW - 5)

    assert "no placement" == a_row(a_state(a_decision(nodes=[node]))).unknown


def test_the_spread_needs_two_nodes() -> None:
    """Of one node it is unknown, and the mean is its load: as in `equipoise nodes`."""
    one = a_state(a_node_utilization("node-a", cpu=9.0))
    two = a_state(a_node_utilization("node-a", cpu=9.0), a_node_utilization("node-b", cpu=2.0), a_placement("node-c"))

    assert [(None, 0.9)] == [(point.cpu, point.cpu_mean) for point in one.everything().points]
    assert [(0.7, 0.55)] == [(point.cpu, point.cpu_mean) for point in two.everything().points]


def test_the_row_of_a_node_that_is_being_emptied_states_since_when() -> None:
    state = a_state(a_placement("node-a"), a_placement("node-b", taints=[consolidation_taint(NOW)]))

    assert a_row(state).emptied == ""
    assert a_row(state, "node-b").emptied == "being emptied by consolidation since 2027-01-15 08:00 UTC"


def test_a_node_of_the_control_plane_does_not_count_for_the_spread() -> None:
    """As in `equipoise nodes`; its row has the reason."""
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    loads = {"node-a": 9.0, "node-b": 5.0, "plane": 1.0}
    usage = (a_node_utilization(node, cpu=cpu) for node, cpu in loads.items())
    state = a_state(*usage, a_placement("node-a"), a_placement("plane", taints=[taint]))
    summary = state.everything().summary
    assert summary is not None

    assert (0.4, 0.7) == (summary.spread.cpu, summary.mean.cpu)
    assert ("", "control plane") == (a_row(state).set_apart, a_row(state, "plane").set_apart)
    assert {"plane", "node-a", "node-b"} == {row.node for row in state.rows}


def test_the_hours_before_the_start_are_the_reviews_of_scorers() -> None:
    """Only those that do not overlap: several scorers review the same hour."""
    hour = NOW - NOW % 3_600 - 3_600

    def review(since: float, until: float, cpu: float) -> ClusterReview:
        return ClusterReview(
            since=since, until=until, seen=until - since, nodes=5, spread=Resources(cpu=cpu), high=Resources(cpu=0.65)
        )

    state = a_state(review(hour, hour + 3_600, 0.5), review(hour + 10, hour + 3_600, 0.4), a_node_utilization())

    assert [0.5, None] == [point.cpu for point in state.everything().points]
    summary = state.everything().summary
    assert summary is not None
    assert Resources(cpu=0.65) == summary.high


def test_a_frame_has_the_loads_of_before() -> None:
    """None is unknown."""
    state = a_state(a_node_utilization("node-a", cpu=9.0), a_placement("node-b"))
    state.apply(a_node_utilization("node-a", cpu=1.0, sequence=2, sampled_at=NOW + 300), NOW + 300)
    state.tick(NOW + 300)

    before, now = state.frame(NOW + 10), state.frame(NOW + 301)

    assert before is not None
    assert now is not None
    assert (NOW, {"node-a": (0.9, 0.062), "node-b": (None, None)}) == (before.at, before.loads)
    assert (NOW + 300, 0.1) == (now.at, now.loads["node-a"][0])


def test_whether_evictions_are_real_is_unknown_without_a_binder() -> None:
    """A binder that is silent for 35 s does not count; if binders differ, real evictions win."""
    state = a_state(a_node_utilization())
    assert "whether evictions are real" in {each.what for each in state._make_summary().unknown}

    for id, evictions in (("binder-1", "dry run"), ("binder-2", "real")):
        state.apply(a_heartbeat(id=id, evictions=evictions), NOW)
    assert "real" == changes_of(state).summary.evictions  # type: ignore[union-attr]

    state.apply(a_heartbeat(id="binder-1", evictions="dry run"), NOW + 30)
    state.tick(NOW + 36)
    assert "dry run" == changes_of(state).summary.evictions  # type: ignore[union-attr]


def test_pods_show_their_usage_and_requests() -> None:
    """A pod that was not measured has an unknown usage; one without requests has none."""
    state = a_state(
        a_placement(pods=[a_placed_pod("web-1"), a_placed_pod("web-2", requests=Resources())]),
        a_node_utilization(pods={"uid-web-1": Resources(cpu=1.5, memory=GIB)}),
    )

    first, second = state.pods_of("Deployment/shop/web")

    assert ("web-1", 1.5, GIB, 0.5) == (first.pod, first.cpu, first.memory, first.cpu_requests)
    assert (None, None, None) == (second.cpu, second.memory, second.cpu_requests)


def test_a_detached_pod_is_a_pod_of_its_workload_and_marked() -> None:
    state = a_state(a_placement(pods=[a_placed_pod("web-1", detached=True), a_placed_pod("web-2")]))

    assert [("web-1", True), ("web-2", False)] == [
        (pod.pod, pod.detached) for pod in state.pods_of("Deployment/shop/web")
    ]


def test_pods_are_read_while_messages_arrive() -> None:
    """The page reads the pods of a workload in a thread: nodes are added and removed meanwhile."""
    state = a_state(a_placement("node-a", [a_placed_pod("web-1")]), a_placement("node-b", [a_placed_pod("web-2")]))

    pods = iter(state.pods_of("Deployment/shop/web"))
    first = next(pods)
    state.apply(a_placement("node-c"), NOW)
    (second,) = pods

    assert ("web-1", "web-2") == (first.pod, second.pod)


def test_another_service_hides_no_binder() -> None:
    """Neither under its id, nor by more processes than are shown."""
    state = a_state(a_node_utilization())
    for number in range(live.MAX_PROCESSES + 50):
        state.apply(a_heartbeat("scorer", f"binder-{number}", evictions="dry run"), NOW)
    state.apply(a_heartbeat(id="binder-1", evictions="real"), NOW)
    state.apply(a_heartbeat("scorer", "binder-1", evictions="dry run"), NOW)
    assert "real" == changes_of(state).summary.evictions  # type: ignore[union-attr]


def test_memory_is_bounded() -> None:
    """Whatever is published."""
    state = LiveState(LoadSettings())
    for number in range(moves.MAX_MOVES + 50):
        state.apply(an_intent(f"pod-{number}"), NOW)
    for number in range(live.MAX_NODES + 5):
        state.apply(a_placement(f"node-{number}"), NOW)
    for number in range(live.MAX_PROCESSES + 50):
        state.apply(a_heartbeat(id=f"binder-{number}", evictions="real"), NOW)
    for number in range(live.MAX_SHARDS + 50):
        state.apply(a_cycle(shard=f"shard-{number}"), NOW)
    for number in range(live.MAX_STRATEGIES + 50):
        state.apply(a_decision(strategy=f"strategy-{number}"), NOW)
    state.tick(NOW)

    everything = state.everything()

    assert (moves.MAX_MOVES, live.MAX_NODES) == (len(everything.moves), len(everything.nodes))
    assert everything.summary is not None
    assert live.MAX_PROCESSES == len(everything.summary.services)
    assert "further nodes" in {each.what for each in everything.summary.unknown}
    assert (live.MAX_SHARDS, live.MAX_STRATEGIES) == (len(state._cycles), len(state._classified))
    for _ in range(history.MAX_POINTS + 10):
        state._history._points.append(state._history._points[0])
        state._history._frames.append(state._history._frames[0])
    assert (history.MAX_POINTS, history.MAX_FRAMES) == (len(state._history._points), len(state._history._frames))


NODES = st.sampled_from(["node-a", "node-b", "node-c"])
LOADS = st.one_of(st.none(), st.floats(0, 12))
MESSAGES = st.one_of(
    st.builds(
        lambda node, cpu, sequence, age: a_node_utilization(
            node, cpu=cpu, sequence=sequence, windows={"5m": a_window(cpu, GIB, NOW - age)}
        ),
        NODES, LOADS, st.integers(1, 9), st.sampled_from([0.0, 170.0, 400.0]),
    ),
    st.builds(
        lambda node, pods, sequence, removed: a_placement(
            node, [a_placed_pod(f"pod-{n}") for n in range(pods)], sequence=sequence, removed=removed
        ),
        NODES, st.integers(0, 3), st.integers(1, 9), st.booleans(),
    ),
    st.builds(lambda node, why: a_cycle(missing={node: why} if why else {}), NODES, st.sampled_from(["", "no sample"])),
    st.builds(lambda node, state: a_decision((node, state)), NODES, st.sampled_from(["hot", "idle", "unknown"])),
    st.builds(an_intent, st.sampled_from(["a", "b"])),
    st.builds(lambda pod: an_outcome(intent_id=f"intent-{pod}", pod=pod), st.sampled_from(["a", "b"])),
    st.builds(a_heartbeat, evictions=st.sampled_from(["", "real", "dry run"])),
)  # fmt: skip


@given(st.lists(st.one_of(MESSAGES, st.floats(0, 4_000)), max_size=40))
def test_all_changes_together_are_the_whole_view(steps: list[Any]) -> None:
    """Whoever applies every change to the first snapshot sees the same as a new viewer. A number is a pause."""
    state, now = LiveState(LoadSettings()), NOW
    nodes: dict[str, NodeRow] = {}
    moves: dict[str, MoveRow] = {}
    summary = None
    for step in [*steps, 1.0]:
        if not isinstance(step, float):
            state.apply(step, now)
            continue
        now += step
        state.tick(now)
        changes = state.take_changes()
        if changes is None:
            continue
        assert nodes.keys() >= set(changes.removed)
        for name in changes.removed:
            del nodes[name]
        nodes |= {row.node: row for row in changes.nodes}
        moves |= {move.id: move for move in changes.moves}
        summary = changes.summary or summary

    everything = state.everything()

    assert {row.node: row for row in everything.nodes} == nodes
    assert {move.id: move for move in everything.moves} == moves
    assert everything.summary == summary
    for row in nodes.values():
        assert bool(row.unknown) == (None in (row.cpu, row.memory))


def test_a_sample_is_shown_for_as_long_as_the_collector_that_measures_has_it() -> None:
    """The defaults of the view have no effect."""
    state = a_state(a_node_utilization())
    long_ago = LoadSettings().lifetime(LoadSettings().shortest) + 60
    state.use(LoadSettings(freshness=Freshness(score=Duration(7_200))))
    state.tick(NOW + long_ago)
    assert [row.unknown for row in state.rows] == [""]


def test_a_node_shows_the_loads_of_further_resources() -> None:
    """Only those that are known."""
    utilization = a_node_utilization(cpu=7.5, memory=16 * GIB)
    window = utilization.windows["5m"]
    mean = msgspec.structs.replace(window.mean, further={"network": 30.0, "gpu": 1.0})
    state = a_state(
        msgspec.structs.replace(
            utilization,
            base=msgspec.structs.replace(utilization.base, further={"network": 90.0}),
            windows={"5m": msgspec.structs.replace(window, mean=mean)},
        )
    )

    assert {"network": 0.333} == a_row(state).further


def test_a_node_shows_how_long_its_processes_wait() -> None:
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.31, io=0.02))

    assert "CPU 31%, disks 2%" == a_row(a_state(a_node_utilization(pressure=pressure))).waits
    assert "" == a_row(a_state(a_node_utilization())).waits
