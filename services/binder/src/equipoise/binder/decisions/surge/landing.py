"""Whether a replacement that kube-scheduler has bound may run on its node once the pod that it replaces has left."""

from collections.abc import Iterable

import msgspec

from equipoise.binder.decisions.destination_check import concluded, destination_search, refused_by_platform
from equipoise.binder.state.cluster_state import ClusterState, NodeState
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.replacement import violated_rules


def depends_on_pods(replacement: Pod) -> bool:
    """Whether other pods of its namespace decide where the replacement may run."""
    spec = replacement.spec
    affinity = spec.affinity.pod_affinity if spec.affinity is not None else None
    return bool(spec.topology_spread_constraints or (affinity is not None and affinity.required))


def landing_problem(
    move: SurgeMove,
    replacement: Pod,
    pods: Iterable[Pod],
    cluster: ClusterState,
    *,
    load: LoadSettings,
    thresholds: Thresholds,
    now: float,
) -> str:
    """Why the replacement should not run on the node that it is bound to; empty if it may, or if that is not known.

    kube-scheduler has placed it beside the pod that it replaces, by its own rules. So two questions remain. A node that
    is not the target of the move must be a possible target. And a topology spread constraint, or the affinity to the
    pod, may be violated when the pod has left. `pods`: those of the namespace; see `depends_on_pods`.
    """
    node, intent = replacement.spec.node_name, move.intent
    if node == intent.node:
        return "the pod was to leave this node"
    try:
        info = PodInfo(with_known_amounts(replacement))
        others = [
            PodInfo(with_known_amounts(pod))
            for pod in pods
            if occupies_node(pod) and pod.metadata.uid not in (intent.pod_uid, replacement.metadata.uid)
        ]
    except ValueError:
        return ""
    if node != intent.target:
        known = cluster.nodes
        nodes = {name: _without(known[name], replacement) for name in (intent.node, node) if name in known}
        obstacle = concluded(
            destination_search(
                intent.node,
                node,
                intent.expected_reduction,
                nodes,
                [refused_by_platform(info, cluster.ready_platforms(move.workload, intent.node))],
                usage_of=pod_usage(cluster.workloads, load=load, now=now),
                load=load,
                thresholds=thresholds,
                now=now,
                skew=cluster.cycles.skew(now),
            )
        )
        if obstacle is not None and not obstacle.unknown:
            return obstacle.why
    return violated_rules(info, node, others, cluster.snapshot)


def _without(state: NodeState, replacement: Pod) -> NodeState:
    """The node without the replacement, whose load is added to that of a target."""
    placement = state.placement
    pods = [pod for pod in placement.pods if pod.uid != replacement.metadata.uid]
    return msgspec.structs.replace(state, placement=msgspec.structs.replace(placement, pods=pods))
