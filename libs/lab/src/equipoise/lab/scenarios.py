"""How a trace's pods come to run: given, or rolled out through a day, or all placed afresh in some order."""

import random
from collections.abc import Callable, Mapping
from functools import partial

from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import Trace
from equipoise.lab.results import Scenario
from equipoise.lab.simulated_cluster import SimulatedCluster

DAY = 86_400.0

_PAUSE_BETWEEN_ARRIVALS = 1.0
_PAUSE_BETWEEN_REPLACEMENTS = 30.0
_SCALED_FROM = 4
"""Replicas from which on a workload is scaled in a churning day."""

_SCALED_FOR = 4 * 3_600.0

Enter = Callable[[Trace, SimulatedCluster, EventQueue, random.Random, float], float]
"""Enters what happens into the agenda, from a moment on; returns when nothing more does."""


def given(trace: Trace, kubernetes: SimulatedCluster, agenda: EventQueue, chance: random.Random, begin: float) -> float:
    """The trace's own placement. Pods of which it tells none are placed in a random order before anything happens."""
    homeless = []
    for pod in trace.pods:
        if pod.node:
            kubernetes.run_on(pod.workload, pod.node, begin)
        else:
            homeless.append(pod.workload)
    chance.shuffle(homeless)
    for workload in homeless:
        kubernetes.create_alone(workload, begin)
    return begin


def fresh(trace: Trace, kubernetes: SimulatedCluster, agenda: EventQueue, chance: random.Random, begin: float) -> float:
    """An empty fleet; every pod arrives once, a second apart, in a random order."""
    order = [pod.workload for pod in trace.pods]
    chance.shuffle(order)
    for number, workload in enumerate(order):
        agenda.at(begin + number * _PAUSE_BETWEEN_ARRIVALS, partial(kubernetes.scale_up, workload))
    return begin + len(order) * _PAUSE_BETWEEN_ARRIVALS


def churn(trace: Trace, kubernetes: SimulatedCluster, agenda: EventQueue, chance: random.Random, begin: float) -> float:
    """The given placement; within the day each workload is rolled out once, and every other larger one scaled.

    A roll-out replaces one pod after the other: the new one runs before the old one leaves. Scaling takes a quarter of
    the replicas away for four hours.
    """
    given(trace, kubernetes, agenda, chance, begin)
    for workload, replicas in enumerate(trace.replicas().tolist()):
        # All is over before the day is: a long roll-out begins earlier.
        length = replicas * _PAUSE_BETWEEN_REPLACEMENTS
        start = begin + chance.uniform(0.0, max(0.0, DAY - length - _SCALED_FOR))
        agenda.at(start, partial(kubernetes.roll_out, workload))
        for number in range(replicas):
            agenda.at(start + number * _PAUSE_BETWEEN_REPLACEMENTS, partial(kubernetes.replace_oldest, workload))
        if replicas >= _SCALED_FROM and workload % 2:
            away = begin + chance.uniform(0.0, DAY - 2 * _SCALED_FOR)
            for _ in range(replicas // 4):
                agenda.at(away, partial(kubernetes.remove_youngest, workload))
                agenda.at(away + _SCALED_FOR, partial(kubernetes.scale_up, workload))
    return begin + DAY


SCENARIOS: Mapping[Scenario, Enter] = {"given": given, "churn": churn, "fresh": fresh}
