"""Whether a pod fits on a node, and why not, as in kube-scheduler's filters. Never by preemption.

The pod is its own replacement: where it runs now it takes no room and excludes no other pod. Pods nominated to
a node count as being there: add them to `FitNode.pods`. To check many nodes for one pod, call `inter_pod_rules` once,
then `node_refusal` and `inter_pod_refusal` for each node. Source: kubernetes v1.36, pkg/scheduler/framework/plugins.
"""

from equipoise.contracts.fit.inter_pod_rules import InterPodRules, inter_pod_refusal, inter_pod_rules
from equipoise.contracts.fit.node_rules import capacity_refusal, constraint_refusal, node_refusal
from equipoise.contracts.fit.pod_index import PodIndex
from equipoise.contracts.fit.values import FitNode, FitPod, HostPort, fit_node, fit_pod, placed_node

__all__ = [
    "FitNode",
    "FitPod",
    "HostPort",
    "InterPodRules",
    "PodIndex",
    "capacity_refusal",
    "constraint_refusal",
    "fit_node",
    "fit_pod",
    "inter_pod_refusal",
    "inter_pod_rules",
    "node_refusal",
    "placed_node",
]
