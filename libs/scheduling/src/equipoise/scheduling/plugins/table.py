"""The plugins by their names in a KubeSchedulerConfiguration, and the functions that create them."""

from collections.abc import Callable, Mapping
from typing import Any

from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.plugins.default_preemption import DefaultPreemption
from equipoise.scheduling.plugins.dynamic_resources import DynamicResources
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.image_locality import ImageLocality
from equipoise.scheduling.plugins.node_affinity import NodeAffinityPlugin
from equipoise.scheduling.plugins.node_name import NodeName
from equipoise.scheduling.plugins.node_ports import NodePorts
from equipoise.scheduling.plugins.node_unschedulable import NodeUnschedulable
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread
from equipoise.scheduling.plugins.priority_sort import PrioritySort
from equipoise.scheduling.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.resources.resource_allocation import (
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from equipoise.scheduling.plugins.scheduling_gates import SchedulingGates
from equipoise.scheduling.plugins.taint_toleration import TaintToleration
from equipoise.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from equipoise.scheduling.plugins.volumes.volume_binding import VolumeBinding
from equipoise.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from equipoise.scheduling.plugins.volumes.volume_zone import VolumeZone
from equipoise.scheduling.settings.plugin_arguments import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    BalancedAllocationArgs,
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
)

Factory = Callable[[Any, Handle], Plugin]
"""(arguments, handle) → plugin. Arguments are as `ARGUMENTS` reads them, or as in the document for other plugins."""


def _fit(args: NodeResourcesFitArgs, handle: Handle) -> NodeResourcesFit:
    strategy: Strategy = requested_to_capacity_ratio(args.shape)
    if args.strategy == LEAST_ALLOCATED:
        strategy = least_allocated
    elif args.strategy == MOST_ALLOCATED:
        strategy = most_allocated
    return NodeResourcesFit(
        strategy,
        args.resources,
        ignored_resources=args.ignored_resources,
        ignored_groups=args.ignored_resource_groups,
    )


def _balanced(args: BalancedAllocationArgs, handle: Handle) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(args.resources)


def _node_affinity(args: NodeAffinityArgs, handle: Handle) -> NodeAffinityPlugin:
    return NodeAffinityPlugin(args.added_affinity)


def _inter_pod_affinity(args: InterPodAffinityArgs, handle: Handle) -> InterPodAffinity:
    return InterPodAffinity(
        args.hard_pod_affinity_weight,
        ignore_preferred_terms_of_existing_pods=args.ignore_preferred_terms_of_existing_pods,
    )


def _preemption(args: DefaultPreemptionArgs, handle: Handle) -> DefaultPreemption:
    return DefaultPreemption(
        handle.framework,
        handle.nominated,
        handle.budgets,
        handle.random,
        may_preempt=handle.may_preempt,
        min_candidate_nodes_percentage=args.min_candidate_nodes_percentage,
        min_candidate_nodes_absolute=args.min_candidate_nodes_absolute,
    )


PLUGINS: Mapping[str, Factory] = {
    "SchedulingGates": lambda args, handle: SchedulingGates(),
    "PrioritySort": lambda args, handle: PrioritySort(),
    "NodeUnschedulable": lambda args, handle: NodeUnschedulable(),
    "NodeName": lambda args, handle: NodeName(),
    "TaintToleration": lambda args, handle: TaintToleration(),
    "NodeAffinity": _node_affinity,
    "NodePorts": lambda args, handle: NodePorts(),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": lambda args, handle: VolumeRestrictions(handle.volumes),
    "NodeVolumeLimits": lambda args, handle: NodeVolumeLimits(handle.volumes),
    "VolumeBinding": lambda args, handle: VolumeBinding(handle.volumes, args.shape),
    "VolumeZone": lambda args, handle: VolumeZone(handle.volumes),
    "PodTopologySpread": lambda args, handle: PodTopologySpread(handle.default_selector, args.default_constraints),
    "InterPodAffinity": _inter_pod_affinity,
    "DynamicResources": lambda args, handle: DynamicResources(),
    "DefaultPreemption": _preemption,
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": lambda args, handle: ImageLocality(),
}

NOT_BUILT = frozenset(
    {
        "DefaultBinder",
        "DeferredPodScheduling",
        "GangScheduling",
        "NodeDeclaredFeatures",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
    }
)
"""Plugins that a configuration may name, and that have no effect. The calling program binds pods, not a plugin."""
