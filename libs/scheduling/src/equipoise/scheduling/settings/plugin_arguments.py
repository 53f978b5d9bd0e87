"""The arguments of plugins (`pluginConfig`), with the defaults and limits of kube-scheduler 1.37.

Sources: pkg/scheduler/apis/config/v1/defaults.go and pkg/scheduler/apis/config/validation of Kubernetes.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import NodeAffinity, TopologySpreadConstraint
from equipoise.scheduling.plugins.resources.resource_allocation import CPU_AND_MEMORY, ResourceWeight, ShapePoint
from equipoise.scheduling.plugins.volumes.volume_binding import LESS_USED_IS_BETTER
from equipoise.scheduling.settings.document import Fields, show

API_VERSION = "kubescheduler.config.k8s.io/v1"

LEAST_ALLOCATED, MOST_ALLOCATED, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, kw_only=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    strategy: str = LEAST_ALLOCATED
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    shape: tuple[ShapePoint, ...] = ()
    """The scoring function of RequestedToCapacityRatio; empty for other strategies."""


class BalancedAllocationArgs(msgspec.Struct, frozen=True, kw_only=True):
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY


class NodeAffinityArgs(msgspec.Struct, frozen=True, kw_only=True):
    added_affinity: NodeAffinity | None = None


class InterPodAffinityArgs(msgspec.Struct, frozen=True, kw_only=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PodTopologySpreadArgs(msgspec.Struct, frozen=True, kw_only=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    """The constraints of pods that have none themselves. None: the system defaults (`defaultingType: System`)."""


class VolumeBindingArgs(msgspec.Struct, frozen=True, kw_only=True):
    bind_timeout: float = 600.0
    """Seconds."""

    shape: tuple[ShapePoint, ...] = LESS_USED_IS_BETTER
    """The score of a node by the percentage of the matched volumes' capacity that the claims request."""


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, kw_only=True):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


def read_arguments(plugin: str, section: Fields) -> object:
    """Reads the arguments of a plugin in ARGUMENTS."""
    section.text("apiVersion", API_VERSION, allowed=(API_VERSION,))
    section.text("kind", f"{plugin}Args", allowed=(f"{plugin}Args",))
    arguments = ARGUMENTS[plugin](section)
    section.end()
    return arguments


def _node_resources_fit(section: Fields) -> NodeResourcesFitArgs:
    for index, value in enumerate(section.texts("ignoredResources")):
        if not is_label_key(value):
            section.wrong(f"ignoredResources[{index}]", value, "the name of an extended resource")
    for index, value in enumerate(section.texts("ignoredResourceGroups")):
        if not is_label_key(value) or "/" in value:
            section.wrong(f"ignoredResourceGroups[{index}]", value, "the group of extended resources, without /")
    strategy = section.section("scoringStrategy")
    kinds = (LEAST_ALLOCATED, MOST_ALLOCATED, RATIO)
    kind = strategy.text("type", LEAST_ALLOCATED, allowed=kinds)
    if section.value("scoringStrategy") is not None and strategy.value("type") is None:
        strategy.not_one_of("type", None, kinds)
    ratio = strategy.value("requestedToCapacityRatio")
    shape: tuple[ShapePoint, ...] = ()
    if kind == RATIO:
        inner = strategy.section("requestedToCapacityRatio")
        shape = _shape(inner)
        inner.end()
    elif ratio is not None:
        strategy.wrong("requestedToCapacityRatio", ratio, f"no such field unless type is {RATIO}")
    arguments = NodeResourcesFitArgs(
        ignored_resources=section.texts("ignoredResources"),
        ignored_resource_groups=section.texts("ignoredResourceGroups"),
        strategy=kind,
        resources=_resources(strategy, highest=100),
        shape=shape,
    )
    strategy.end()
    return arguments


def _balanced_allocation(section: Fields) -> BalancedAllocationArgs:
    return BalancedAllocationArgs(resources=_resources(section, highest=1))


def _node_affinity(section: Fields) -> NodeAffinityArgs:
    value = section.value("addedAffinity")
    if value is None:
        return NodeAffinityArgs()
    affinity = _converted(section, "addedAffinity", value, NodeAffinity)
    if affinity is None:
        return NodeAffinityArgs()
    terms = affinity.required.node_selector_terms if affinity.required is not None else ()
    for index, term in enumerate(terms):
        path = f"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"
        _check_term(section, path, term)
    for index, preferred in enumerate(affinity.preferred):
        path = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference"
        _check_term(section, path, preferred.preference)
    return NodeAffinityArgs(added_affinity=affinity)


def _inter_pod_affinity(section: Fields) -> InterPodAffinityArgs:
    return InterPodAffinityArgs(
        hard_pod_affinity_weight=section.integer("hardPodAffinityWeight", 1, lowest=0, highest=100),
        ignore_preferred_terms_of_existing_pods=section.flag("ignorePreferredTermsOfExistingPods"),
    )


def _pod_topology_spread(section: Fields) -> PodTopologySpreadArgs:
    kind = section.text("defaultingType", "System", allowed=("System", "List"))
    value = section.value("defaultConstraints")
    if kind == "System":
        if value:
            section.wrong("defaultConstraints", value, "none, unless defaultingType is List")
        return PodTopologySpreadArgs()
    constraints: list[TopologySpreadConstraint] = []
    for entry in section.sections("defaultConstraints"):
        key = entry.text("topologyKey")
        if not is_label_key(key):
            entry.wrong("topologyKey", key, "the key of a label of nodes")
        actions = ("DoNotSchedule", "ScheduleAnyway")
        action = entry.text("whenUnsatisfiable", allowed=actions)
        if entry.value("whenUnsatisfiable") is None:
            entry.not_one_of("whenUnsatisfiable", None, actions)
        if entry.value("labelSelector") is not None:
            entry.wrong(
                "labelSelector", entry.value("labelSelector"), "none: it is that of the pod's Service or workload"
            )
        constraint = TopologySpreadConstraint(
            max_skew=entry.integer("maxSkew", 0, lowest=1),
            topology_key=key,
            when_unsatisfiable=action,
            min_domains=entry.optional_integer("minDomains", lowest=1),
            node_affinity_policy=entry.text("nodeAffinityPolicy", "Honor", allowed=("Honor", "Ignore")),
            node_taints_policy=entry.text("nodeTaintsPolicy", "Ignore", allowed=("Honor", "Ignore")),
            match_label_keys=list(entry.texts("matchLabelKeys")),
        )
        if entry.value("maxSkew") is None:
            entry.wrong("maxSkew", None, "1 or more")
        if (key, action) in {(other.topology_key, other.when_unsatisfiable) for other in constraints}:
            entry.fault("topologyKey", f"{show(key)} with {action} is given twice")
        constraints.append(constraint)
        entry.end()
    return PodTopologySpreadArgs(default_constraints=tuple(constraints))


def _volume_binding(section: Fields) -> VolumeBindingArgs:
    return VolumeBindingArgs(
        bind_timeout=float(section.integer("bindTimeoutSeconds", 600, lowest=0)),
        shape=_shape(section) if section.value("shape") else LESS_USED_IS_BETTER,
    )


def _default_preemption(section: Fields) -> DefaultPreemptionArgs:
    arguments = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=section.integer("minCandidateNodesPercentage", 10, lowest=0, highest=100),
        min_candidate_nodes_absolute=section.integer("minCandidateNodesAbsolute", 100, lowest=0),
    )
    if not arguments.min_candidate_nodes_percentage and not arguments.min_candidate_nodes_absolute:
        section.wrong("minCandidateNodesPercentage", 0, "more than 0 here or in minCandidateNodesAbsolute")
    return arguments


ARGUMENTS: Mapping[str, Callable[[Fields], object]] = {
    "NodeResourcesFit": _node_resources_fit,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeAffinity": _node_affinity,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
    "DefaultPreemption": _default_preemption,
}
"""How the arguments of a plugin are read."""


def _resources(section: Fields, highest: int) -> tuple[ResourceWeight, ...]:
    """The weights of resources; the default if there are none. A weight of 0 counts as 1."""
    weights: dict[str, ResourceWeight] = {}
    for entry in section.sections("resources"):
        name = entry.text("name")
        if not name:
            entry.wrong("name", name, "the name of a resource")
        if name in weights:
            entry.fault("name", f"{show(name)} is given twice")
        weight = entry.integer("weight", 1, lowest=0, highest=highest) or 1
        weights[name] = ResourceWeight(name=name, weight=weight)
        entry.end()
    return tuple(weights.values()) or CPU_AND_MEMORY


def _shape(section: Fields) -> tuple[ShapePoint, ...]:
    points: list[ShapePoint] = []
    for entry in section.sections("shape"):
        utilization = entry.integer("utilization", 0, lowest=0, highest=100)
        if points and utilization <= points[-1].utilization:
            entry.wrong("utilization", utilization, f"more than {points[-1].utilization}, that of the point before it")
        points.append(ShapePoint(utilization=utilization, score=entry.integer("score", 0, lowest=0, highest=10)))
        entry.end()
    if not points:
        section.wrong("shape", section.value("shape"), "at least one point")
        return (ShapePoint(utilization=0, score=0),)
    return tuple(points)


T = TypeVar("T")


def _converted(section: Fields, name: str, value: object, kind: type[T]) -> T | None:
    """The value as `kind`. None if that fails, which is recorded as a fault."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        section.fault(name + path.rstrip("`"), f"{what.replace('`', '')} in {show(value)}")
        return None


OPERATORS: Mapping[str, str] = {
    "In": "at least one value",
    "NotIn": "at least one value",
    "Exists": "no values",
    "DoesNotExist": "no values",
    "Gt": "one whole number",
    "Lt": "one whole number",
}
"""What the values of a requirement must be."""


def _check_term(section: Fields, path: str, term: NodeSelectorTerm) -> None:
    for index, rule in enumerate(term.match_expressions):
        rule_path = f"{path}.matchExpressions[{index}]"
        if not is_label_key(rule.key):
            section.wrong(f"{rule_path}.key", rule.key, "the key of a label")
        if rule.operator not in OPERATORS:
            section.not_one_of(f"{rule_path}.operator", rule.operator, OPERATORS)
        elif not _values_are_valid(rule):
            section.wrong(f"{rule_path}.values", rule.values, f"{OPERATORS[rule.operator]} with {rule.operator}")
    for index, rule in enumerate(term.match_fields):
        rule_path = f"{path}.matchFields[{index}]"
        if rule.key != "metadata.name":
            section.wrong(f"{rule_path}.key", rule.key, "metadata.name")
        if rule.operator not in ("In", "NotIn"):
            section.not_one_of(f"{rule_path}.operator", rule.operator, ("In", "NotIn"))
        elif len(rule.values) != 1:
            section.wrong(f"{rule_path}.values", rule.values, "one name")


def _values_are_valid(rule: SelectorRequirement) -> bool:
    match rule.operator:
        case "Exists" | "DoesNotExist":
            return not rule.values
        case "In" | "NotIn":
            return bool(rule.values)
        case _:
            return len(rule.values) == 1 and re.fullmatch("[+-]?[0-9]+", rule.values[0]) is not None


_NAME = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile("(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_label_key(text: str) -> bool:
    """Whether the text is a qualified name of Kubernetes: a name, with or without a DNS subdomain and a slash."""
    prefix, slash, name = text.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or bool(_PREFIX.fullmatch(prefix)))
