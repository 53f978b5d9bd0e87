"""One evaluation: what each strategy classifies, plans and proposes, and what a plan request shows of it."""

import math
from collections import Counter
from collections.abc import Collection
from typing import Literal

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization
from descheduler.cluster import a_workload_object
from descheduler.cluster_states import THRESHOLDS
from descheduler.decisions.strategies.test_laws import VARIANTS
from descheduler.outcomes import an_outcome
from descheduler.snapshots import LONG_AGO, a_pod, a_snapshot, evaluation_settings, owners_of

from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.plan import PlannedBand
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState
from equipoise.descheduler.decisions.evaluation.messages import plan_response, proposals
from equipoise.descheduler.decisions.evaluation.pipeline import (
    MAX_NAMED,
    evaluate,
    observe,
    preferred_nodes,
    unexpected_annotations,
)
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot, WatchedObjects
from equipoise.descheduler.decisions.strategies import Strategy
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.abnormal_counts import counted
from equipoise.descheduler.state.moves.tracker import Tracker

SETTINGS = evaluation_settings()
EPOCH = LeaseEpoch(lease_uid="lease", transitions=0, holder="descheduler-1")
HOT_AND_IDLE = ("node-a", "node-b", "node-c")


class Recording(BinPack, frozen=True, kw_only=True, tag_field="name", tag="recording"):
    """Plans nothing, and keeps the clusters that it was called with."""

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        SEEN.append(cluster)
        return MovePlan(why="it only records")


class Postponing(LowNodeLoad, frozen=True, kw_only=True, tag_field="name", tag="postponing"):
    """Plans every move for later."""

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        plan = LowNodeLoad.plan(self, cluster, abnormal)
        return msgspec.structs.replace(plan, moves=(), later=plan.moves)


SEEN: list[ClusterView] = []


def hot_and_idle() -> Snapshot:
    """node-a at 80 % by eight pods of different workloads; node-b and node-c without load."""
    pods = [a_pod(f"app{number}-x", app=f"app{number}", placed_at=LONG_AGO) for number in range(8)]
    usages = {pod.metadata.uid: Resources(cpu=1.0, memory=GIB) for pod in pods}
    utilization = {
        "node-a": a_node_utilization(cpu=8.0, memory=8 * GIB, pods=usages),
        "node-b": a_node_utilization("node-b", cpu=0.0, memory=0.0),
        "node-c": a_node_utilization("node-c", cpu=0.0, memory=0.0),
    }
    owners = owners_of(*(f"app{number}" for number in range(8)))
    return msgspec.structs.replace(a_snapshot(*pods, nodes=HOT_AND_IDLE, owners=owners), nodes=utilization)


def with_a_measured_day(snapshot: Snapshot) -> Snapshot:
    """Every pod uses the same in each hour of the past day."""
    day: list[float | None] = [1.0] * SLOTS
    memory: list[float | None] = [float(GIB)] * SLOTS
    workloads = {
        workload: a_workload_utilization(workload, profile={"cpu": day, "memory": memory})
        for workload in snapshot.watched.workloads
    }
    return msgspec.structs.replace(snapshot, workloads=workloads)


def test_nothing_is_planned_for_a_day_that_nobody_has_measured() -> None:
    """The workloads have no profile, only their present usage: the plan has the reason, and no hot node."""
    snapshot, settings = hot_and_idle(), evaluation_settings(strategies=(LevelDay(),))
    evaluation = evaluate(snapshot, settings, needed=1)
    response = plan_response(evaluation, snapshot, settings, evictions="real", leader=EPOCH)

    assert (response.moves, response.nodes) == ([], [])
    assert evaluate(with_a_measured_day(snapshot), settings, needed=1).results[0].plan.moves
    by_name = {each.node: each for each in evaluation.results[0].classifications}
    assert by_name["node-a"].why == "its day is not measured yet (0 of 24 hours)"
    assert response.why == {"level_day": "not planned: the day is not measured yet (0 of 24 hours)"}


@pytest.mark.parametrize("strategy", VARIANTS, ids=str)
@pytest.mark.parametrize("mode", ["observe", "act"])
@pytest.mark.parametrize("campaign", [False, True])
def test_strategies_that_level_wait_while_a_node_is_being_emptied(
    strategy: Strategy, mode: Literal["observe", "act"], campaign: bool
) -> None:
    """The others, and all of them in a campaign, plan what they plan otherwise. A hot node ends the emptying."""
    node = NodeBeingEmptied(node="node-z", uid="uid-node-z", since=NOW - 60, why="")
    before = msgspec.structs.replace(with_a_measured_day(hot_and_idle()), campaign=campaign)
    during = msgspec.structs.replace(before, emptying=EmptyingState(nodes={node.uid: node}))
    configured = evaluation_settings(strategies=(strategy,), consolidation=Consolidation(mode=mode))
    usual, plan = (evaluate(snapshot, configured, needed=1).results[0].plan for snapshot in (before, during))

    if strategy.levels and mode == "act" and not campaign:
        assert plan == MovePlan(why="it waits until node-z has been emptied, because no node has to be relieved")
    else:
        assert plan == usual


def test_a_plan_states_how_uneven_nodes_are_before_and_after_it_and_what_each_move_gains_and_costs() -> None:
    """So do the intents of an evaluation."""
    snapshot, settings = hot_and_idle(), evaluation_settings(strategies=(LowNodeLoad(),))
    evaluation = evaluate(snapshot, settings, needed=1)
    response = plan_response(evaluation, snapshot, settings, evictions="real", leader=EPOCH)
    assert response.before is not None
    assert response.after is not None
    touched = {node.node: node for node in response.nodes}
    assert response.before.highest.cpu == pytest.approx(touched["node-a"].before.cpu)
    assert response.after.highest.cpu == pytest.approx(touched["node-a"].after.cpu)
    assert response.after.spread.cpu is not None
    assert response.before.spread.cpu is not None
    assert response.after.spread.cpu < response.before.spread.cpu
    proposed = [intent for intent, _ in proposals(evaluation.results[0], snapshot, settings, EPOCH)]
    for move in (*response.moves, *proposed):
        assert move.gain == pytest.approx((move.expected_reduction.cpu or 0.0) / 10.0)
        assert move.cost is not None
        assert move.cost.memory == move.expected_reduction.memory
        assert move.cost.age is not None


def test_a_planned_pod_is_not_listed_as_not_moved() -> None:
    """The next strategy plans as if its move were pending: that is no reason, and nothing is pending."""
    snapshot, settings = (
        with_a_measured_day(hot_and_idle()),
        evaluation_settings(strategies=(LowNodeLoad(), LevelDay())),
    )
    evaluation = evaluate(snapshot, settings, needed=1)
    response = plan_response(evaluation, snapshot, settings, evictions="real", leader=EPOCH)

    moved = {f"{move.namespace}/{move.pod}" for move in response.moves}
    assert moved
    assert not [each for each in response.refused if each.pod in moved or "it has a pending move" in each.why]


def test_a_pod_that_two_strategies_do_not_move_is_listed_once() -> None:
    """It has the reason of the first one."""
    snapshot = with_a_measured_day(hot_and_idle())
    pods = [
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, annotations={"equipoise.dev/evict": "false"})
        )
        for pod in snapshot.watched.pods
    ]
    snapshot = msgspec.structs.replace(snapshot, watched=msgspec.structs.replace(snapshot.watched, pods=pods))
    settings = evaluation_settings(strategies=(LowNodeLoad(), LevelDay()))
    evaluation = evaluate(snapshot, settings, needed=1)
    response = plan_response(evaluation, snapshot, settings, evictions="real", leader=EPOCH)

    assert response.moves == []
    assert sorted(each.pod for each in response.refused) == sorted(f"shop/{pod.metadata.name}" for pod in pods)


def test_a_strategy_plans_with_the_moves_of_those_before_it_pending() -> None:
    """At an evaluation as in a plan preview: moves that were just planned use up capacity and limits."""
    SEEN.clear()
    settings = evaluation_settings(strategies=(LowNodeLoad(), Recording()))

    evaluation = evaluate(hot_and_idle(), settings, needed=1)

    (cluster,) = SEEN
    assert len(evaluation.results[0].plan.moves) == 2
    assert cluster.in_flight == 2
    assert [node.projected("5m").cpu for node in cluster.nodes] == pytest.approx([6.0, 1.0, 1.0])


def test_kube_scheduler_may_prefer_another_node_than_the_target() -> None:
    """It does not know usage: much of the idle node-b is requested, and nothing of node-c, which has load."""
    snapshot = hot_and_idle()
    big = Container(resources=ResourceRequirements(requests={"cpu": "5", "memory": "32Gi"}))
    asking = a_pod("asking-x", node="node-b", app="app0", placed_at=LONG_AGO, containers=[big])
    snapshot = msgspec.structs.replace(
        snapshot,
        watched=msgspec.structs.replace(snapshot.watched, pods=[*snapshot.watched.pods, asking]),
        nodes=snapshot.nodes | {"node-c": a_node_utilization("node-c", cpu=3.0, memory=GIB)},
    )

    evaluation = evaluate(snapshot, evaluation_settings(strategies=(LowNodeLoad(),)), needed=1)
    found = preferred_nodes(evaluation)
    response = plan_response(evaluation, snapshot, SETTINGS, evictions="on", leader=EPOCH, preferred=found)

    assert response.moves
    assert {(move.target, move.preferred_without_scores) for move in response.moves} == {("node-b", "node-c")}


def test_of_equally_preferred_nodes_kube_scheduler_may_choose_the_target() -> None:
    """It is not the first of them by name."""
    snapshot = hot_and_idle()
    busier = a_node_utilization("node-b", cpu=2.0, memory=GIB)
    snapshot = msgspec.structs.replace(snapshot, nodes=snapshot.nodes | {"node-b": busier})
    evaluation = evaluate(snapshot, evaluation_settings(strategies=(LowNodeLoad(),)), needed=1)
    (result,) = evaluation.results

    first = result.plan.moves[0]
    assert first.target == "node-c"
    assert preferred_nodes(evaluation)[result.strategy, first.pod.uid] == first.target


def test_every_strategy_classifies_the_cluster_without_the_moves_of_others() -> None:
    """These may still be refused: a node must not lose its count to them. Three strategies see the same cluster."""
    alone = evaluate(hot_and_idle(), evaluation_settings(strategies=(LevelDay(),)), needed=1)
    both = evaluate(hot_and_idle(), evaluation_settings(strategies=(LowNodeLoad(), LevelDay())), needed=1)

    assert both.results[0].plan.moves
    assert both.results[1].classifications == alone.results[0].classifications
    assert both.results[1].cluster.in_flight == 2


def test_moves_for_later_are_not_pending_for_the_next_strategy() -> None:
    """They are proposed only by a later evaluation, which plans them again."""
    SEEN.clear()
    evaluation = evaluate(hot_and_idle(), evaluation_settings(strategies=(Postponing(), Recording())), needed=1)

    (cluster,) = SEEN
    assert evaluation.results[0].plan.later
    assert cluster.in_flight == 0


def test_nothing_is_planned_without_coverage() -> None:
    """The nodes are classified and counted all the same."""
    snapshot = msgspec.structs.replace(hot_and_idle(), cycles=())
    evaluation = evaluate(snapshot, evaluation_settings(strategies=(LowNodeLoad(),)), needed=1)
    (result,) = evaluation.results

    assert result.plan == MovePlan(why=evaluation.problem)
    assert "no collector has completed a cycle yet" in evaluation.problem
    assert [each.abnormal for each in result.classifications] == [True, False, False]


def test_nothing_is_planned_while_too_many_nodes_are_not_ready() -> None:
    """No load is expected of them, so the coverage of the others is complete."""
    snapshot = hot_and_idle()
    lost = [
        *snapshot.watched.nodes[:-1],
        msgspec.structs.replace(snapshot.watched.nodes[-1], status=NodeStatus()),
    ]
    snapshot = msgspec.structs.replace(snapshot, watched=msgspec.structs.replace(snapshot.watched, nodes=lost))
    evaluation = evaluate(snapshot, evaluation_settings(strategies=(LowNodeLoad(),)), needed=1)

    assert evaluation.problem == "2 of 3 nodes are Ready, 80% needed (load.coverage.eviction)"
    assert not any(result.plan.moves for result in evaluation.results)


def test_nothing_is_planned_while_the_watch_is_interrupted() -> None:
    """The objects may be outdated."""
    snapshot = msgspec.structs.replace(hot_and_idle(), watch_problem="connection refused")
    evaluation = evaluate(snapshot, evaluation_settings(), needed=1)

    assert evaluation.problem == "the watch of the API server is interrupted: connection refused"
    assert not any(result.plan.moves for result in evaluation.results)


def test_a_node_must_be_abnormal_at_enough_evaluations() -> None:
    """The counts of the snapshot are those before this evaluation, which counts as well."""
    settings = evaluation_settings(strategies=(LowNodeLoad(),))
    hot = NodeClassification(node="node-a", state="hot", load=Resources())
    counts = counted({}, [hot], now=NOW - 9 * 120.0, interval=120.0)
    for number in range(3):
        hot = msgspec.structs.replace(hot, sampled_at=NOW - 400 + 120 * number)
        counts = counted(counts, [hot], now=NOW - 360.0 + 120.0 * number, interval=120.0)

    def moves(needed: int) -> int:
        snapshot = msgspec.structs.replace(hot_and_idle(), counts={"low_node_load": counts})
        few = msgspec.structs.replace(settings, consecutive_abnormalities=needed)
        return len(evaluate(snapshot, few).results[0].plan.moves)

    (count,) = counts.values()
    assert (moves(count.abnormal + 1), moves(count.abnormal + 2)) == (2, 0)


def test_a_pending_move_has_the_uids_of_pods_that_are_no_replacement() -> None:
    """And the usage and the hot resources of the node, to compare its load afterwards."""
    snapshot, settings = hot_and_idle(), evaluation_settings(strategies=(LowNodeLoad(),))
    (result,) = evaluate(snapshot, settings, needed=1).results

    (first, move), (second, _) = proposals(result, snapshot, settings, EPOCH)

    assert (first.pod, first.target, second.target) == ("app0-x", "node-b", "node-c")
    assert first.id == move.id != second.id
    assert (first.expires_at, move.until) == (NOW + 180.0, NOW + 360.0)
    assert move.siblings == {"uid-app0-x"}
    assert (move.before.cpu, move.over) == (8.0, ("cpu",))


def test_a_plan_consists_of_the_moves_of_one_evaluation() -> None:
    """With all moves, the load of their nodes before and after, and the evaluations that are missing."""
    snapshot, settings = (
        with_a_measured_day(hot_and_idle()),
        evaluation_settings(strategies=(LowNodeLoad(), LevelDay())),
    )
    evaluation = evaluate(snapshot, settings, needed=1)

    response = plan_response(evaluation, snapshot, settings, evictions="real", leader=EPOCH)

    assert [(move.strategy, move.pod) for move in response.moves] == [
        (result.strategy, move.pod.name)
        for result in evaluation.results
        for move in (*result.plan.moves, *result.plan.later)
    ]
    by_node = {(node.strategy, node.node): node for node in response.nodes}
    assert by_node["low_node_load", "node-a"].missing_evaluations == 5
    assert by_node["level_day", "node-a"].state == "hot"


def test_a_plan_has_the_batch_work_and_the_bands_of_its_nodes() -> None:
    """The load of batch work beside that of the node, and what its pods request of what the node offers."""
    requests = ResourceRequirements(requests={"kubernetes.io/batch-cpu": "1500"})
    batch = a_pod("batch-1", containers=[Container(resources=requests)], priority=5_500)
    offered = {"kubernetes.io/batch-cpu": "4k", "kubernetes.io/batch-memory": "8Gi"}
    utilizations = {
        "node-a": a_node_utilization(cpu=8.0, pods={"uid-batch-1": Resources(cpu=3.0, memory=GIB)}),
        "node-b": a_node_utilization("node-b"),
    }
    snapshot = msgspec.structs.replace(a_snapshot(batch), nodes=utilizations)
    for node in snapshot.watched.nodes:
        node.status.allocatable.update(offered if node.metadata.name == "node-a" else {})
    settings = evaluation_settings(strategies=(LowNodeLoad(),))

    response = plan_response(evaluate(snapshot, settings, needed=1), snapshot, settings, evictions="real", leader=EPOCH)

    (node,) = (each for each in response.nodes if each.node == "node-a")
    assert node.batch_work is not None
    assert (node.before.cpu, node.batch_work.cpu) == (pytest.approx(0.8), pytest.approx(0.3))
    assert node.bands == {
        "batch": PlannedBand(offered=Resources(cpu=4.0, memory=8 * GIB), requested=Resources(cpu=1.5, memory=0.0))
    }
    assert all(each.batch_work is None and not each.bands for each in response.nodes if each.node == "node-b")


# A whole day of dry runs, and the same day with real evictions

INTERVAL = 120.0
EVALUATIONS = 720


class RunningPod(msgspec.Struct, kw_only=True):
    """`created_as`: its name before anything was evicted."""

    created_as: str
    name: str
    node: str
    app: str
    object: Pod


class Day:
    """Six nodes. On three of them the usage of every pod grows, on each node at another hour."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._tracker = Tracker(DeschedulerSettings().tracker)
        self._settings: EvaluationSettings = evaluation_settings(THRESHOLDS, strategies=(LowNodeLoad(),))
        self.proposed: list[tuple[float, str, str, str]] = []
        """Hour, pod (as it was created), source and target."""

        self._owners = owners_of(*(f"w{place}" for place in range(8)))
        self._pods = [
            self._pod(f"p{node}-{place}", f"p{node}-{place}", f"node-{node}", f"w{place}")
            for node in range(6)
            for place in range(8)
        ]

    def _pod(self, created_as: str, name: str, node: str, app: str) -> RunningPod:
        pod = a_pod(name, node=node, app=app, placed_at=LONG_AGO)
        return RunningPod(created_as=created_as, name=name, node=node, app=app, object=pod)

    def _cores(self, pod: RunningPod, hour: float) -> float:
        """The pods of the nodes 0, 1 and 2 grow by half, and more, at hours 4, 10 and 16."""
        node, place = (int(number) for number in pod.created_as[1:].split("-"))
        if node > 2:
            return 0.15
        return 0.55 + 0.04 * place + (0.35 if hour >= 4 + 6 * node else 0.0) + 0.01 * math.sin(hour)

    def _snapshot(self, now: float) -> Snapshot:
        hour = (now - NOW) / 3_600
        nodes = [f"node-{number}" for number in range(6)]
        utilization = {}
        for name in nodes:
            usages = {
                f"uid-{pod.name}": Resources(cpu=self._cores(pod, hour), memory=GIB)
                for pod in self._pods
                if pod.node == name
            }
            cores = sum(usage.cpu or 0.0 for usage in usages.values())
            utilization[name] = a_node_utilization(
                name, cpu=cores, memory=len(usages) * GIB, pods=usages, sampled_at=now
            )
        pods = [pod.object for pod in self._pods]
        fields = {"pending": self._tracker.pending, "cooldowns": self._tracker.cooldowns}
        snapshot = a_snapshot(*pods, nodes=nodes, owners=self._owners, now=now, **fields)
        return msgspec.structs.replace(snapshot, nodes=utilization, workloads={}, counts=self._tracker.counts)

    def evaluate(self, now: float) -> None:
        tracker = self._tracker
        changes = observe(self._snapshot(now).watched, tracker.awaited_workloads(), tracker.pending)
        tracker.update(changes.awaited, changes.locations, changes.nodes, now)
        snapshot = self._snapshot(now)
        (result,) = evaluate(snapshot, self._settings).results
        tracker.count(result.strategy, result.classifications, now)
        for intent, move in proposals(result, snapshot, self._settings, EPOCH):
            tracker.proposed(move)
            (pod,) = [pod for pod in self._pods if pod.name == intent.pod]
            self.proposed.append(((now - NOW) / 3_600, pod.created_as, intent.node, intent.target))
            tracker.on_outcome(an_outcome(self._outcome, intent, settled_at=now), now)
            if self._outcome is Outcome.EVICTED:
                self._pods.remove(pod)
                self._pods.append(self._pod(pod.created_as, f"{pod.name}-r", intent.target, pod.app))

    def run(self) -> "Day":
        for number in range(EVALUATIONS):
            self.evaluate(NOW + number * INTERVAL)
        return self

    def loads(self) -> list[float | None]:
        cluster = evaluate(self._snapshot(NOW + EVALUATIONS * INTERVAL), self._settings).cluster
        return [node.load("5m").cpu for node in cluster.nodes]


@pytest.fixture(scope="module")
def dry() -> Day:
    return Day(Outcome.DRY_RUN).run()


@pytest.fixture(scope="module")
def real() -> Day:
    return Day(Outcome.EVICTED).run()


def test_a_dry_run_proposes_each_pod_once_a_day(dry: Day) -> None:
    """Three nodes become hot, each at its hour. What was proposed is not proposed again."""
    proposed = Counter(pod for _, pod, _, _ in dry.proposed)

    assert len(dry.proposed) >= 6
    assert {source for _, _, source, _ in dry.proposed} == {"node-0", "node-1", "node-2"}
    assert set(proposed.values()) == {1}


def test_a_dry_run_proposes_what_real_evictions_would(dry: Day, real: Day) -> None:
    """The same pods at the same times to the same targets, where each replacement follows its intent."""
    assert dry.proposed == real.proposed
    assert dry.loads() == pytest.approx(real.loads())


# Annotations


def watched(value: str, count: int = 1) -> WatchedObjects:
    """Deployments with this value of the annotation."""
    owners: dict[str, WorkloadObject] = {}
    for number in range(count):
        owner = a_workload_object(f"web-{number}", 3)
        metadata = msgspec.structs.replace(owner.metadata, annotations={"equipoise.dev/evict": value})
        owners[f"web-{number}"] = msgspec.structs.replace(owner, metadata=metadata)
    workloads = {a_workload(name): owner for name, owner in owners.items()}
    return WatchedObjects(nodes=[], pods=[], namespaces={}, workloads=workloads)


def test_an_unexpected_value_is_reported() -> None:
    """The author of "true" may have meant to allow evictions; the report states that it protects."""
    assert unexpected_annotations(watched("false")) == ""
    assert unexpected_annotations(watched("true")).endswith('workload shop/web-0 ("true")')


def test_few_objects_are_named() -> None:
    """The others are counted."""
    text = unexpected_annotations(watched("true", count=MAX_NAMED + 2))

    assert text.count("workload shop/") == MAX_NAMED
    assert text.endswith(" and 2 more")
