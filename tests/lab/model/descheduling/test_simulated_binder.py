"""Moves with and without a gap, as the binder of a replay executes them."""

import random

import msgspec
import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerNamespace, Limits
from equipoise.binder.decisions.limits.migrating_per_node import MigratingPerNode
from equipoise.binder.decisions.result import Finish
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.lab.model.cluster_objects import node_object
from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.descheduling.simulated_binder import EPOCH, SimulatedBinder
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import Trace, TraceBudget
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.lab.simulated.cluster import SimulatedCluster, SimulatedPod
from equipoise.lab.simulated.collector import SimulatedCollector, load_settings
from equipoise.lab.simulated.requests import SimulatedRequests

ORIGIN = 1_800_000_000.0
LIMITS = Limits(
    evictions_per_cluster=EvictionsPerCluster(max=20),
    evictions_per_namespace=EvictionsPerNamespace(max="unlimited"),
    migrating_per_node=MigratingPerNode(max="unlimited"),
)


class WithoutFit(SimulatedRequests):
    """Another pod takes the place of the replacement after its fit was checked."""

    def detach(self, intent: EvictionIntent) -> Finish | None:
        self.kubernetes.detach(self.kubernetes.pods[intent.pod_uid], self.events.now)
        return None


class World:
    """Single replicas on the first node, each of another workload. The intents move them to the second one."""

    def __init__(self, trace: Trace, requests: type[SimulatedRequests] = SimulatedRequests) -> None:
        self.events, self.outcomes = EventQueue(), list[EvictionOutcome]()
        curves = UsageCurves(trace)
        self.usage = ClusterUsage(trace, curves)
        collector = SimulatedCollector(
            trace, self.usage, curves, load_settings(QUARTER), tick=QUARTER, origin=ORIGIN, missing=0.0,
            generator=np.random.default_rng(1),
        )  # fmt: skip
        scheduling = SimulatedScheduler(trace, random.Random(1))
        numbers = {workload: number for number, workload in enumerate(collector.workloads)}
        self.objects = ApiObjects(
            replicas=lambda workload: self.kubernetes.replicas(numbers[workload]),
            excluded=lambda workload: (),
            all_nodes={node.name: node_object(node) for node in trace.nodes},
            template=lambda uid: self.kubernetes.pods[uid].scheduled.pod,
        )
        self.kubernetes = SimulatedCluster(
            trace, self.usage, collector, scheduling, self.events,
            lambda message, now: self.objects.on_placement(message), origin=ORIGIN,
        )  # fmt: skip
        for workload in range(len(trace.workloads)):
            self.kubernetes.run_on(workload, "node-0", 0.0)
        for node in range(len(trace.nodes)):
            self.objects.on_placement(collector.placement(node, 0.0))
        self.binder = SimulatedBinder(
            limits=LIMITS,
            surge=SurgeSettings(mode="always"),
            sample_lifetime=120.0,
            objects=self.objects,
            requests=requests(self.kubernetes, scheduling, self.events),
            publish=self.outcomes.append,
            started_at=ORIGIN - 86_400.0,
        )

    @property
    def pods(self) -> list[SimulatedPod]:
        return list(self.kubernetes.pods.values())

    def move(self, workload: int = 0, *, without_gap: bool = True) -> None:
        pod = next(pod for pod in self.pods if pod.workload == workload)
        now = ORIGIN + self.events.now
        intent = EvictionIntent(
            id=pod.uid, pod_uid=pod.uid, namespace=pod.known.namespace, pod=pod.known.name, node="node-0",
            workload=pod.known.workload, strategy="level_day", reason="", sampled_at=now, decided_at=now,
            expires_at=now + 120.0, expected_reduction=Resources(), target="node-1", epoch=EPOCH,
        )  # fmt: skip
        self.binder.decide(intent, without_gap=without_gap, now=now)

    def run(self, until: float) -> None:
        """The binder carries on every two seconds."""
        self.events.every(2.0, lambda now: self.binder.carry_on(ORIGIN + now), first=self.events.now, until=until)
        self.events.run(until)

    @property
    def gap(self) -> float:
        return self.kubernetes.gaps.seconds(self.events.now)


def a_world(**fields: int) -> World:
    """Two nodes; the pods request half of a node each."""
    defaults = {"nodes": 2, "request_cpu_milli": 4_000, "workloads": 1} | fields
    count = defaults.pop("workloads")
    world = World(a_trace(curves=((2_000.0,) * 96,) * count, replicas=(1,) * count, **defaults))  # type: ignore[arg-type]  # all are numbers
    world.events.run(0.0)
    return world


def test_a_pod_that_is_moved_without_a_gap_runs_until_its_replacement_is_ready() -> None:
    """Also if no further pod has a node then."""
    world = a_world(request_cpu_milli=5_000)
    (old,) = world.pods
    world.move()
    world.run(9.0)

    assert [] == world.outcomes
    assert [old.known.detached, old.terminating, len(world.pods)] == [True, False, 2]

    world.run(60.0)

    (new,) = world.pods
    assert [Outcome.EVICTED] == [outcome.outcome for outcome in world.outcomes]
    assert (1, 1, 1) == (new.node, world.binder.tally.evicted, world.binder.tally.without_gap)
    assert (0.0, False) == (world.gap, world.binder.has_open_moves)


def test_a_pod_that_is_evicted_leaves_a_gap() -> None:
    """Until its replacement has started."""
    world = a_world()
    world.move(without_gap=False)
    world.run(60.0)

    assert (1, 0) == (world.binder.tally.evicted, world.binder.tally.without_gap)
    assert 10.0 == world.gap


def test_both_pods_use_and_request_their_part_meanwhile() -> None:
    """From the time at which the replacement has a node."""
    world = a_world()
    world.move()
    world.events.run(1.0)

    assert [2.0, 2.0] == world.usage.usage[:, 0].tolist()
    (old, new) = world.pods
    assert (0, 1) == (old.node, new.node)
    feasible = world.kubernetes.scheduling.feasible(old.attached).tolist()
    world.kubernetes.run_on(0, "node-0", 1.0)
    world.kubernetes.run_on(0, "node-1", 1.0)
    assert ([0, 1], []) == (feasible, world.kubernetes.scheduling.feasible(old.attached).tolist())


def test_the_objects_of_a_detached_pod_show_no_owner_and_no_template() -> None:
    """It counts as no replica of its workload. Afterwards, its replacement has both."""
    world = a_world()
    (old,) = world.pods
    world.move()
    world.events.run(1.0)

    pod = world.objects.pod(old.uid)
    assert pod is not None
    assert pod.metadata.controller is None
    assert "pod-template-hash" not in pod.metadata.labels
    assert 0 == world.objects.running()[old.known.workload]
    assert old.known.workload is not None
    (replacement,) = world.objects.replicas_on_nodes(old.known.workload)
    assert replacement.metadata.controller is not None
    assert old.scheduled.pod.metadata.controller is None


def test_a_pod_whose_replacement_finds_no_node_is_restored() -> None:
    """After surge.readyTimeout. The pending replacement is deleted, and nothing was missing."""
    world = World(
        a_trace(nodes=1, curves=((2_000.0,) * 96,), replicas=(1,), request_cpu_milli=5_000), requests=WithoutFit
    )
    world.events.run(0.0)
    (old,) = world.pods
    world.move()
    world.run(290.0)
    assert 2 == len(world.pods)

    world.run(320.0)

    assert [old] == world.pods
    assert (False, "0") == (old.known.detached, old.scheduled.labels["pod-template-hash"])
    (outcome,) = world.outcomes
    assert (Outcome.FAILED, True) == (outcome.outcome, "not ready in time" in outcome.detail)
    assert (0, 0.0, 0) == (world.binder.tally.evicted, world.gap, world.kubernetes.unplaced)


def test_a_pod_whose_replacement_returns_to_its_node_is_restored() -> None:
    """Before the replacement is ready."""
    world = a_world(nodes=1, request_cpu_milli=1_000)
    (old,) = world.pods
    world.move()
    world.run(60.0)

    assert [old] == world.pods
    (outcome,) = world.outcomes
    assert "the pod was to leave this node" in outcome.detail


def test_a_replacement_that_fits_on_no_node_is_not_waited_for() -> None:
    """The move does not begin."""
    world = a_world(nodes=1, request_cpu_milli=5_000)
    world.move()

    assert [Outcome.REJECTED_FIT] == [outcome.outcome for outcome in world.outcomes]
    assert (1, False) == (len(world.pods), world.binder.has_open_moves)


def test_no_more_pods_are_moved_at_once_than_permitted() -> None:
    """Two, by default. The third waits for them."""
    world = a_world(workloads=3, request_cpu_milli=500)
    for workload in range(3):
        world.move(workload)
    assert [] == world.outcomes

    world.run(20.0)
    assert 2 == world.binder.tally.without_gap
    world.run(100.0)
    assert (3, 3) == (world.binder.tally.without_gap, world.binder.tally.proposed)


@pytest.mark.parametrize(("without_gap", "outcome"), [(True, Outcome.EVICTED), (False, Outcome.BLOCKED_PDB)])
def test_a_budget_without_any_disruption_permits_only_moves_without_a_gap(without_gap: bool, outcome: Outcome) -> None:
    """When the replacement is ready, there is one pod more than the budget needs."""
    trace = a_trace(nodes=2, curves=((2_000.0,) * 96,), replicas=(1,))
    budget = TraceBudget(name="none", workloads=(0,), max_unavailable=0)
    world = World(msgspec.structs.replace(trace, budgets=(budget,)))
    world.events.run(0.0)
    world.move(without_gap=without_gap)
    world.run(60.0)

    assert [outcome] == [each.outcome for each in world.outcomes]
    assert 0.0 == world.gap


def test_a_limit_counts_a_move_that_is_under_way() -> None:
    """Its eviction may happen at any time."""
    world = a_world(workloads=2, request_cpu_milli=500)
    world.binder.limits = msgspec.structs.replace(LIMITS, evictions_per_cluster=EvictionsPerCluster(max=1))
    world.move(0)
    world.move(1)

    assert {"evictionsPerCluster": 1} == dict(world.binder.tally.refused)
