"""The lifecycle of pods, and the number of replicas."""

import random

import msgspec
import numpy as np
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import AntiAffinity, Trace, TraceBudget
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.lab.simulated.cluster import SimulatedCluster
from equipoise.lab.simulated.collector import SimulatedCollector, load_settings


def a_full_node() -> tuple[SimulatedCluster, EventQueue]:
    """Two pods of four cores on the only node, which has eight cores."""
    return with_two_pods(a_trace(nodes=1, replicas=(2,), request_cpu_milli=4_000))


def with_two_pods(trace: Trace, nodes: tuple[str, str] = ("node-0", "node-0")) -> tuple[SimulatedCluster, EventQueue]:
    curves, events = UsageCurves(trace), EventQueue()
    usage = ClusterUsage(trace, curves)
    collector = SimulatedCollector(
        trace, usage, curves, load_settings(QUARTER), tick=QUARTER, origin=0.0, missing=0.0,
        generator=np.random.default_rng(1),
    )  # fmt: skip
    scheduling = SimulatedScheduler(trace, random.Random(1))
    kubernetes = SimulatedCluster(trace, usage, collector, scheduling, events, lambda message, now: None, origin=0.0)
    for node in nodes:
        kubernetes.run_on(0, node, 0.0)
    return kubernetes, events


def test_a_pending_pod_of_a_rollout_replaces_an_evicted_one() -> None:
    """No further pod is created or deleted."""
    kubernetes, events = a_full_node()
    old = next(iter(kubernetes.pods.values()))

    kubernetes.replace_oldest(0, 10.0)
    assert 3 == len(kubernetes.pods)
    kubernetes.evict(old, 20.0)
    assert 3 == len(kubernetes.pods)
    events.run(1_000.0)

    assert 2 == len(kubernetes.pods)
    assert 0 == kubernetes.unplaced
    assert old.uid not in kubernetes.pods


def test_an_evicted_pod_is_replaced_at_once() -> None:
    """The replacement is pending until the old one is deleted."""
    kubernetes, events = a_full_node()
    old = next(iter(kubernetes.pods.values()))

    kubernetes.evict(old, 10.0)
    events.run(11.0)
    assert 1 == sum(pod.node < 0 for pod in kubernetes.pods.values())

    events.run(1_000.0)
    assert 2 == len(kubernetes.pods)
    assert 0 == kubernetes.unplaced


def test_an_eviction_is_refused_until_the_replacement_of_the_last_one_is_ready() -> None:
    """By a budget of one unavailable pod. A pod takes ten seconds to start; one that does not run may be evicted."""
    budget = TraceBudget(name="one", workloads=(0,), max_unavailable=1)
    kubernetes, events = with_two_pods(msgspec.structs.replace(a_trace(nodes=2, replicas=(2,)), budgets=(budget,)))
    old, other = kubernetes.pods.values()
    assert kubernetes.refused_eviction(old) is None

    replacement = kubernetes.evict(old, 0.0)
    assert replacement is not None
    events.run(9.0)
    assert [True, False] == [kubernetes.refused_eviction(pod) is not None for pod in (other, replacement)]

    events.run(10.0)
    assert [None, None] == [kubernetes.refused_eviction(pod) for pod in (other, replacement)]


def test_a_pod_that_is_scaled_down_is_not_replaced() -> None:
    """Until the workload is scaled up."""
    kubernetes, events = a_full_node()

    kubernetes.remove_youngest(0, 10.0)
    events.run(1_000.0)
    assert (1, 0) == (len(kubernetes.pods), kubernetes.unplaced)

    kubernetes.scale_up(0, 2_000.0)
    events.run(3_000.0)
    assert (2, 0) == (len(kubernetes.pods), kubernetes.unplaced)


def test_an_autoscaler_scales_a_workload_to_a_number_of_replicas() -> None:
    """Its ReplicaSet deletes the pods with the lowest deletion cost first."""
    kubernetes, events = with_two_pods(a_trace(nodes=2, replicas=(2,)))
    kubernetes.scale(0, 4, 0.0)
    events.run(100.0)
    assert (4, 4, 0.0) == (len(kubernetes.pods), kubernetes.replicas(0), kubernetes.gaps.seconds(100.0))

    first, second, third, fourth = kubernetes.pods.values()
    third.deletion_cost, first.deletion_cost = -9_999, -9_998
    kubernetes.scale(0, 2, 100.0)
    events.run(200.0)

    assert [second, fourth] == list(kubernetes.pods.values())
    assert (2, 0.0) == (kubernetes.replicas(0), kubernetes.gaps.seconds(200.0))


def test_a_scale_down_deletes_pending_pods_first() -> None:
    """Whatever the cost of those that run."""
    kubernetes, events = a_full_node()
    before = list(kubernetes.pods.values())
    kubernetes.scale(0, 3, 10.0)
    before[0].deletion_cost = -9_999
    kubernetes.scale(0, 2, 20.0)
    events.run(100.0)

    assert before == list(kubernetes.pods.values())


def test_a_detached_pod_still_counts_for_the_anti_affinity_of_the_trace() -> None:
    """At most one pod of the workload on a node: the replacement goes to the other one."""
    rule = AntiAffinity(beside=0, limited=0, most=1)
    kubernetes, events = with_two_pods(a_trace(nodes=3, replicas=(2,), rules=(rule,)), nodes=("node-0", "node-1"))
    old, _ = kubernetes.pods.values()
    replacement = kubernetes.detach(old, 0.0)
    assert replacement is not None
    assert (0, 2) == (old.node, replacement.node)

    events.run(100.0)
    assert 0 == kubernetes.scheduling.anti_affinity.violations()
