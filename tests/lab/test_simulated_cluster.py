"""The life of pods: as many as a workload should have, whoever takes them away."""

import random

import numpy as np
from lab.traces import QUARTER, a_trace

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.schedulers import StockOnly
from equipoise.lab.simulated_cluster import SimulatedCluster
from equipoise.lab.simulated_collector import SimulatedCollector, load_settings


def a_full_node() -> tuple[SimulatedCluster, EventQueue]:
    """Two pods of four cores each on the only node, which has eight."""
    trace = a_trace(nodes=1, replicas=(2,), request_cpu_milli=4_000)
    curves, agenda = UsageCurves(trace), EventQueue()
    world = ClusterUsage(trace, curves)
    collector = SimulatedCollector(
        trace, world, curves, load_settings(QUARTER), tick=QUARTER, origin=0.0, missing=0.0,
        generator=np.random.default_rng(1),
    )  # fmt: skip
    scheduling = StockOnly(trace, random.Random(1))
    kubernetes = SimulatedCluster(trace, world, collector, scheduling, agenda, lambda message, now: None, origin=0.0)
    for _ in range(2):
        kubernetes.run_on(0, "node-0", 0.0)
    return kubernetes, agenda


def test_a_roll_out_that_waits_for_room_replaces_what_is_evicted_meanwhile() -> None:
    """The new pod takes the place of the one that was taken away: nobody else is made, and nobody else leaves."""
    kubernetes, agenda = a_full_node()
    old = next(iter(kubernetes.pods.values()))

    kubernetes.replace_oldest(0, 10.0)
    assert 3 == len(kubernetes.pods)
    kubernetes.evict(old, 20.0)
    assert 3 == len(kubernetes.pods)
    agenda.run(1_000.0)

    assert 2 == len(kubernetes.pods)
    assert 0 == kubernetes.unplaced
    assert old.uid not in kubernetes.pods


def test_an_evicted_pod_is_replaced_at_once() -> None:
    """It waits for the room that the old one still takes, and counts as missing until then."""
    kubernetes, agenda = a_full_node()
    old = next(iter(kubernetes.pods.values()))

    kubernetes.evict(old, 10.0)
    agenda.run(11.0)
    assert 1 == sum(pod.node < 0 for pod in kubernetes.pods.values())

    agenda.run(1_000.0)
    assert 2 == len(kubernetes.pods)
    assert 0 == kubernetes.unplaced


def test_what_is_scaled_away_is_not_missing() -> None:
    """Nor does it come back before it is asked for."""
    kubernetes, agenda = a_full_node()

    kubernetes.remove_youngest(0, 10.0)
    agenda.run(1_000.0)
    assert (1, 0) == (len(kubernetes.pods), kubernetes.unplaced)

    kubernetes.scale_up(0, 2_000.0)
    agenda.run(3_000.0)
    assert (2, 0) == (len(kubernetes.pods), kubernetes.unplaced)
