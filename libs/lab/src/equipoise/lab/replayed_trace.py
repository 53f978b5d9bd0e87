"""The trace of a replay, as its plan changes it."""

import random

import msgspec

from equipoise.lab.model.node_removal import with_fewer_nodes
from equipoise.lab.model.replicas.autoscaling import autoscaled
from equipoise.lab.model.resource_requests import with_requests
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan


def replayed_trace(trace: Trace, plan: ReplayPlan) -> Trace:
    """The trace with the requests and without the nodes of the plan, in whole days, and autoscaled in that scenario.

    Its nodes are in random order: kube-scheduler considers only a part of the nodes at a time, and some traces list all
    small nodes first.
    """
    trace = with_fewer_nodes(with_requests(trace, plan.requests), plan.removed_nodes).in_whole_days
    nodes = list(trace.nodes)
    random.Random(0).shuffle(nodes)
    trace = msgspec.structs.replace(trace, nodes=tuple(nodes))
    return autoscaled(trace) if plan.scenario == "autoscaled" else trace
