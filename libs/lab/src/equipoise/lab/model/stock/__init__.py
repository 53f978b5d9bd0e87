"""The stock kube-scheduler 1.36: resources, taints, spreading and anti-affinity. Pure.

Omitted because a trace has no data for them: NodeAffinity, ImageLocality, InterPodAffinity as a score, volumes, ports,
spreading over zones (all nodes get the same score); preemption; nominated nodes; and the reuse of sorted nodes for
identical pods, which any extender disables. Nodes are filtered in sequence; kube-scheduler uses 16 workers in an
undefined order. Source: kubernetes v1.36, pkg/scheduler.
"""
