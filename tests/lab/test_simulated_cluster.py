"""The lifecycle of pods, and the number of replicas."""

import random

import msgspec
import numpy as np
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import Trace, TraceBudget
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.lab.simulated_cluster import SimulatedCluster
from equipoise.lab.simulated_collector import SimulatedCollector, load_settings


def a_full_node() -> tuple[SimulatedCluster, EventQueue]:
    """Two pods of four cores on the only node, which has eight cores."""
    return with_two_pods(a_trace(nodes=1, replicas=(2,), request_cpu_milli=4_000))


def with_two_pods(trace: Trace) -> tuple[SimulatedCluster, EventQueue]:
    """On the first node."""
    curves, events = UsageCurves(trace), EventQueue()
    usage = ClusterUsage(trace, curves)
    collector = SimulatedCollector(
        trace, usage, curves, load_settings(QUARTER), tick=QUARTER, origin=0.0, missing=0.0,
        generator=np.random.default_rng(1),
    )  # fmt: skip
    scheduling = SimulatedScheduler(trace, random.Random(1))
    kubernetes = SimulatedCluster(trace, usage, collector, scheduling, events, lambda message, now: None, origin=0.0)
    for _ in range(2):
        kubernetes.run_on(0, "node-0", 0.0)
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
