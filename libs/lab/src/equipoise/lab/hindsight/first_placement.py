"""The placement from which the search from scratch begins: it has room for as many pods as possible."""

from random import Random

import numpy as np

from equipoise.lab.hindsight.placement_problem import PlacementProblem
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.scheduling.model.arrays import Rows


def first_placement(problem: PlacementProblem) -> Rows:
    """The node of each pod; −1: none.

    The pods with the largest requests come first. Each is placed on the node of which then the smallest part of CPU and
    memory is requested, of those that kube-scheduler would choose among. Pods that are bound to their node stay there.
    """
    scheduler = SimulatedScheduler(problem.trace, Random(0))
    requests = problem.requests[problem.workload, :2] / problem.allocatable[:, :2].mean(axis=0)
    order = np.lexsort((-requests.sum(axis=1), problem.movable))
    requested = np.zeros(problem.base.shape)
    node = np.full(len(order), -1, dtype=np.intp)
    for pod in order.tolist():
        workload = int(problem.workload[pod])
        replica = scheduler.template(workload).replica(f"pod-{pod}", f"pod-{pod}")
        if problem.movable[pod]:
            feasible = scheduler.feasible(replica)
            if not len(feasible):
                continue
            after = (requested[feasible] + problem.requests[workload, :2]) / problem.allocatable[feasible, :2]
            node[pod] = feasible[after.sum(axis=1).argmin()]
        else:
            node[pod] = problem.given[pod]
        if node[pod] >= 0:
            requested[node[pod]] += problem.requests[workload, :2]
            scheduler.place(replica, int(node[pod]))
    return node
