"""How the pods of a trace are placed: as given, with rollouts through a day, all from scratch, or autoscaled."""

import math
import random
from collections.abc import Callable, Mapping
from functools import partial

from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import Trace
from equipoise.lab.results import Scenario
from equipoise.lab.simulated.cluster import SimulatedCluster

DAY = 86_400.0
DAYS_BEFORE_MEASUREMENT = 2
"""Days before the measured ones. A trace that is not longer is repeated, so that profiles are learned from the measured
days."""

_PAUSE_BETWEEN_ARRIVALS = 1.0
_PAUSE_BETWEEN_REPLACEMENTS = 30.0
_SCALED_FROM = 4
"""The smallest number of replicas of the workloads that `churn` scales."""

_SCALED_FOR = 4 * 3_600.0

Enter = Callable[[Trace, SimulatedCluster, EventQueue, random.Random, float], float]
"""A function that schedules the events of a scenario from a time on, and returns the time of the last event."""


def given(
    trace: Trace, kubernetes: SimulatedCluster, events: EventQueue, generator: random.Random, begin: float
) -> float:
    """Place the pods as in the trace. Pods without a node are scheduled first, in random order."""
    unplaced = []
    for pod in trace.pods:
        if pod.node:
            kubernetes.run_on(pod.workload, pod.node, begin)
        else:
            unplaced.append(pod.workload)
    generator.shuffle(unplaced)
    for workload in unplaced:
        kubernetes.create_alone(workload, begin)
    return begin


def fresh(
    trace: Trace, kubernetes: SimulatedCluster, events: EventQueue, generator: random.Random, begin: float
) -> float:
    """Start with an empty cluster. All pods are created one second apart, in random order."""
    order = [pod.workload for pod in trace.pods]
    generator.shuffle(order)
    for number, workload in enumerate(order):
        events.at(begin + number * _PAUSE_BETWEEN_ARRIVALS, partial(kubernetes.scale_up, workload))
    return begin + len(order) * _PAUSE_BETWEEN_ARRIVALS


def churn(
    trace: Trace, kubernetes: SimulatedCluster, events: EventQueue, generator: random.Random, begin: float
) -> float:
    """Place the pods as in the trace, then roll out each workload once within a day, and scale every second larger one.

    A rollout replaces the pods one by one; the new pod runs before the old one is deleted. Scaling removes a quarter of
    the replicas for four hours.
    """
    given(trace, kubernetes, events, generator, begin)
    for workload, replicas in enumerate(trace.replicas().tolist()):
        # Long rollouts start early enough to end within the day.
        length = replicas * _PAUSE_BETWEEN_REPLACEMENTS
        start = begin + generator.uniform(0.0, max(0.0, DAY - length - _SCALED_FOR))
        events.at(start, partial(kubernetes.roll_out, workload))
        for number in range(replicas):
            events.at(start + number * _PAUSE_BETWEEN_REPLACEMENTS, partial(kubernetes.replace_oldest, workload))
        if replicas >= _SCALED_FROM and workload % 2:
            removed_at = begin + generator.uniform(0.0, DAY - 2 * _SCALED_FOR)
            for _ in range(replicas // 4):
                events.at(removed_at, partial(kubernetes.remove_youngest, workload))
                events.at(removed_at + _SCALED_FOR, partial(kubernetes.scale_up, workload))
    return begin + DAY


def autoscaled(
    trace: Trace, kubernetes: SimulatedCluster, events: EventQueue, generator: random.Random, begin: float
) -> float:
    """Place the pods as in the trace, and scale the workloads in each step from then on, see `autoscaling`."""
    given(trace, kubernetes, events, generator, begin)
    assert trace.replicas_by_step is not None, "the replay has computed it"
    replicas = trace.replicas_by_step

    def scale(now: float) -> None:
        step = int(now // trace.seconds_per_step) % trace.steps
        for workload, number in enumerate(replicas[:, step].tolist()):
            if kubernetes.replicas(workload) != number:
                kubernetes.scale(workload, number, now)

    events.every(trace.seconds_per_step, scale, first=begin, until=math.inf)
    return math.inf


SCENARIOS: Mapping[Scenario, Enter] = {"given": given, "churn": churn, "fresh": fresh, "autoscaled": autoscaled}

DEFAULT_SCENARIOS: tuple[Scenario, ...] = ("given", "churn", "fresh")
"""The scenarios that are compared if none is named."""
