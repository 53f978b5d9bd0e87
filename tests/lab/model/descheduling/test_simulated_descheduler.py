"""The descheduler and the binder of a replay."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from scheduling.pods import a_budget, a_node
from scheduling.pods import a_pod as a_scheduled_pod

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerWorkload, Limits
from equipoise.binder.decisions.result import Finish
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.kubernetes.labels import ZONE
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.pod import Pod, TopologySpreadConstraint
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.model.cluster_objects import pod_template
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.descheduling.simulated_binder import SimulatedBinder
from equipoise.lab.model.descheduling.simulated_descheduler import SimulatedDescheduler, paced
from equipoise.lab.model.trace import TraceWorkload

NOW = 1_800_000_000.0
LOAD = LoadSettings()
GIB = 2.0**30
LONG_AGO = NOW - 2 * 86_400.0
WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
API = Workload(kind="Deployment", group="apps", namespace="shop", name="api")
BASE = Resources(cpu=8.0, memory=32 * GIB)
GENEROUS = Limits(evictions_per_cluster=EvictionsPerCluster(max=20))
"""One percent of four pods is one."""

POD = a_scheduled_pod(requests={"cpu": "500m", "memory": "1Gi"}).pod
SETTINGS = DeschedulerSettings(consecutive_abnormalities=1, max_intents_per_node=2, strategies=(LowNodeLoad(),))
SEEN: list[ClusterView] = []


class Recording(BinPack, frozen=True, kw_only=True, tag_field="name", tag="recording"):
    """Plans nothing, and keeps the clusters that it was called with."""

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        SEEN.append(cluster)
        return MovePlan(why="it only records")


def a_pod(workload: Workload, number: int, **fields: Any) -> PlacedPod:
    name = f"{workload.name}-{number}"
    defaults: dict[str, Any] = {
        "uid": name, "namespace": "shop", "name": name, "workload": workload, "placed_at": LONG_AGO,
        "running_since": LONG_AGO, "requests": Resources(cpu=0.5, memory=GIB),
    }  # fmt: skip
    return PlacedPod(**(defaults | fields))


class SmallCluster:
    """A hot node with two pods of each of two workloads, and an idle one."""

    def __init__(
        self,
        *,
        settings: DeschedulerSettings = SETTINGS,
        limits: Limits = GENEROUS,
        min_replicas: int = 2,
        replicas: int = 2,
        template: Pod = POD,
        budgets: Sequence[PodDisruptionBudget] = (),
        response: Finish | None = None,
        zones: bool = False,
    ) -> None:
        self.evicted: list[str] = []
        self.published: list[EvictionIntent | EvictionOutcome] = []
        self.pods = [a_pod(workload, number) for workload in (WEB, API) for number in range(2)]
        self._response = response
        self.replicas = replicas
        objects = ApiObjects(
            replicas=lambda workload: self.replicas,
            excluded=lambda workload: (),
            all_nodes={
                name: a_node(name, cpu="8", memory="32Gi", labels={ZONE: name} if zones else {})
                for name in ("hot", "idle")
            },
            template=lambda uid: template,
        )
        self.binder = SimulatedBinder(
            limits=limits,
            surge=SurgeSettings(),
            sample_lifetime=LOAD.freshness.eviction,
            objects=objects,
            requests=self,
            publish=self._on_outcome,
            started_at=NOW - 86_400.0,
        )
        self.descheduler = SimulatedDescheduler(
            settings=settings,
            load=LOAD,
            thresholds=Thresholds(),
            protection=Protection(min_replicas=min_replicas),
            objects=objects,
            usage_of=lambda workload: Resources(cpu=1.8, memory=GIB),
            days=dict,
            budgets=lambda: budgets,
            propose=self._on_intent,
        )

    def _on_intent(self, intent: EvictionIntent, without_gap: bool) -> None:
        self.published.append(intent)
        self.binder.decide(intent, without_gap=without_gap, now=intent.decided_at)

    def _on_outcome(self, outcome: EvictionOutcome) -> None:
        self.descheduler.on_outcome(outcome)
        self.published.append(outcome)

    def evict(self, intent: EvictionIntent) -> Finish | None:
        if self._response is None:
            self.evicted.append(intent.pod)
        return self._response

    def detach(self, intent: EvictionIntent) -> Finish | None:
        raise AssertionError("every pod is evicted at once")

    def restore(self, intent: EvictionIntent) -> None:
        raise AssertionError("no pod is detached")

    def measure(self, now: float, *, cpu: float = 7.2, gone: Collection[GonePod] = (), expected: int = 2) -> None:
        for node, pods, used in (("hot", self.pods, cpu), ("idle", [], 0.4)):
            value = WindowUsage(sampled_at=now, mean=Resources(cpu=used, memory=len(pods) * GIB))
            left = list(gone) if node == "hot" else []
            self.descheduler.on_placement(
                NodePlacement(node=node, uid=node, allocatable=BASE, pods=pods, gone=left, epoch=1, sequence=1)
            )
            self.descheduler.on_utilization(
                NodeUtilization(
                    node=node, uid=node, base=BASE, sampled_at=now, queried_at=now, epoch=1, sequence=1,
                    windows={window.name: value for window in LOAD.windows},
                    pods={pod.uid: Resources(cpu=1.8, memory=GIB) for pod in pods},
                )
            )  # fmt: skip
        self.descheduler.on_cycle(UtilizationCycle(shard="0", cycle=1, expected=expected, fresh=2, queried_at=now))

    def evaluate(self, now: float = NOW, **measured: Any) -> None:
        self.measure(now, **measured)
        self.binder.update(now)
        self.descheduler.evaluate(now)


def test_pods_leave_a_hot_node() -> None:
    """One of each workload, as many as may leave a node at once. Each has an intent and an outcome."""
    cluster = SmallCluster()
    cluster.evaluate()

    assert {"web", "api"} == {name.split("-")[0] for name in cluster.evicted}
    assert 2 == cluster.binder.tally.evicted == cluster.binder.tally.proposed
    assert [EvictionIntent, EvictionOutcome] * 2 == [type(message) for message in cluster.published]


def test_a_limit_refuses_by_its_name() -> None:
    """Nothing moves, and the outcome has the reason."""
    cluster = SmallCluster(limits=Limits(evictions_per_workload=EvictionsPerWorkload(max=0)))
    cluster.evaluate()

    assert [] == cluster.evicted
    assert {"evictionsPerWorkload": 2} == dict(cluster.binder.tally.refused)
    outcomes = [message for message in cluster.published if isinstance(message, EvictionOutcome)]
    assert {Outcome.REJECTED_LIMIT} == {outcome.outcome for outcome in outcomes}


def test_a_moved_workload_is_in_cooldown() -> None:
    """At the next evaluation, with the same load, no pod of it is proposed."""
    cluster = SmallCluster()
    cluster.evaluate()
    cluster.evaluate(NOW + 150.0)

    assert 2 == cluster.binder.tally.proposed


def test_a_refused_eviction_moves_nothing_and_uses_up_no_limit() -> None:
    """Its outcome and the reason are published."""
    limits = Limits(evictions_per_cluster=EvictionsPerCluster(max=1))
    cluster = SmallCluster(response=Finish(outcome=Outcome.BLOCKED_PDB, detail="a budget refuses"), limits=limits)
    cluster.evaluate()

    assert 0 == cluster.binder.tally.evicted
    assert {"a budget refuses": 2} == dict(cluster.binder.tally.refused)
    outcomes = [message.outcome for message in cluster.published if isinstance(message, EvictionOutcome)]
    assert [Outcome.BLOCKED_PDB] * 2 == outcomes


@pytest.mark.parametrize(("allowed", "proposed"), [(1, 2), (0, 0)])
def test_pods_are_proposed_only_if_their_disruption_budget_allows_it(allowed: int, proposed: int) -> None:
    template = a_scheduled_pod(labels={"app": "web"}).pod
    cluster = SmallCluster(template=template, budgets=[a_budget(allowed, namespace="shop", app="web")])
    cluster.evaluate()

    assert proposed == cluster.binder.tally.proposed


@pytest.mark.parametrize("fields", [{"min_replicas": 3}, {"replicas": 3}], ids=["too small", "a replica is missing"])
def test_protected_workloads_do_not_move(fields: dict[str, int]) -> None:
    """By the rules of the product: as few replicas as protection.minReplicas, and unready ones."""
    cluster = SmallCluster(**fields)
    cluster.evaluate()

    assert 0 == cluster.binder.tally.proposed


def test_pods_of_a_gang_do_not_move() -> None:
    """A trace has the gang of a workload."""
    cluster = SmallCluster(template=pod_template(TraceWorkload(name="web", gang="PodGroup train")).pod)
    cluster.evaluate()

    assert 0 == cluster.binder.tally.proposed


def test_the_current_number_of_replicas_counts() -> None:
    """While a workload is scaled up a replica is missing; once the number is reached its pods move."""
    cluster = SmallCluster(replicas=3)
    cluster.evaluate()
    assert 0 == cluster.binder.tally.proposed

    cluster.replicas = 2
    cluster.evaluate(NOW + 150.0)
    assert 2 == cluster.binder.tally.proposed


@pytest.mark.parametrize(("zones", "proposed"), [(True, 2), (False, 0)])
def test_pods_move_only_where_their_topology_spread_constraints_allow(zones: bool, proposed: int) -> None:
    """A node without a zone is not allowed."""
    constraint = TopologySpreadConstraint(topology_key=ZONE, label_selector=LabelSelector(match_labels={"app": "web"}))
    template = a_scheduled_pod(labels={"app": "web"}, topology_spread_constraints=[constraint]).pod
    cluster = SmallCluster(template=template, zones=zones)
    cluster.evaluate()

    assert proposed == cluster.binder.tally.proposed


def test_pods_of_daemon_sets_do_not_move() -> None:
    """The product protects them."""
    cluster = SmallCluster()
    agent = Workload(kind="DaemonSet", group="apps", namespace="shop", name="agent")
    cluster.pods = [a_pod(agent, number) for number in range(4)]
    cluster.evaluate()

    assert 0 == cluster.binder.tally.proposed


def test_nothing_moves_without_coverage() -> None:
    """As in the product: here two of three nodes are measured."""
    cluster = SmallCluster()
    cluster.evaluate(expected=3)

    assert 0 == cluster.binder.tally.proposed


def test_a_strategy_plans_with_the_moves_of_those_before_it() -> None:
    """They are pending, with the requests of the replacement reserved, as in the leader's evaluation."""
    SEEN.clear()
    settings = DeschedulerSettings(consecutive_abnormalities=1, strategies=(LowNodeLoad(), Recording()))
    cluster = SmallCluster(settings=settings)
    cluster.evaluate()

    (seen,) = SEEN
    hot, idle = seen.nodes
    assert 2 == seen.in_flight == cluster.binder.tally.proposed
    assert (pytest.approx(3.6), pytest.approx(4.0)) == (hot.projected("5m").cpu, idle.projected("5m").cpu)
    assert {"cpu": 1.0, "memory": 2 * GIB} == idle.requested


def test_pods_that_left_or_started_recently_correct_the_load() -> None:
    """A pod that left half a window ago is in half of it, and a pod that started then is missing in half of it."""
    SEEN.clear()
    cluster = SmallCluster(settings=DeschedulerSettings(strategies=(Recording(),)))
    cluster.measure(NOW - 200.0)
    left = cluster.pods.pop()
    gone = GonePod(
        uid=left.uid,
        namespace="shop",
        name=left.name,
        workload=API,
        running_since=LONG_AGO,
        gone_at=NOW - 150.0,
        usage=Resources(cpu=1.8, memory=GIB),
    )
    cluster.evaluate(cpu=6.3, gone=[gone])
    cluster.pods = [*cluster.pods, a_pod(API, 7, placed_at=NOW - 160.0, running_since=NOW - 150.0)]
    cluster.evaluate(cpu=7.2, gone=[gone])

    without, with_started = SEEN
    assert pytest.approx((6.3 - 0.9) / 8.0) == without.nodes[0].load("5m").cpu
    assert pytest.approx((7.2 - 0.9 + 0.9) / 8.0) == with_started.nodes[0].load("5m").cpu


def test_fewer_evaluations_cover_the_same_time() -> None:
    """Five of two minutes are two of five minutes. A finer trace changes nothing."""
    settings = DeschedulerSettings()

    slower = paced(settings, 300.0)

    assert (Duration(300), 2, 10) == (
        slower.interval, slower.consecutive_abnormalities, slower.max_intents_per_evaluation,
    )  # fmt: skip
    assert settings == paced(settings, 60.0)
    assert 1 == paced(settings, 3_600.0).consecutive_abnormalities
