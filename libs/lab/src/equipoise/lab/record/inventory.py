"""Converts nodes, pods and PodDisruptionBudgets of the API server to the parts of a trace."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import msgspec

from equipoise.contracts.eviction.gangs import gang_of
from equipoise.contracts.kubernetes.labels import HOSTNAME, selects
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.kubernetes.nodes.raw_allocatable import base_of
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Affinity, Pod
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.kubernetes.owners import workload_from_pod, workload_of
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.kubernetes.requests import Amounts, pod_limit, pod_requests
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.lab.model.cluster_objects import REVISION
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.trace import (
    AntiAffinity,
    TopologyKey,
    TraceBudget,
    TraceNode,
    TracePod,
    TraceSpreadConstraint,
    TraceTaint,
    TraceWorkload,
)
from equipoise.lab.record.options import RecordError
from equipoise.lab.record.owners import Key
from equipoise.scheduling.model.node_order import zone_of
from equipoise.scheduling.model.pod_info import PodInfo


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, pods and workloads; workloads are ordered by namespace, kind and name."""

    nodes: tuple[TraceNode, ...]
    workloads: tuple[TraceWorkload, ...]
    pods: tuple[TracePod, ...]
    rules: tuple[AntiAffinity, ...]
    budgets: tuple[TraceBudget, ...] = ()
    notes: tuple[str, ...]


def owner_keys(pods: Sequence[Pod], controllers: Mapping[Key, OwnerReference | None]) -> dict[str, Key]:
    """The workload of every pod, by `namespace/pod`.

    A pod without controller or a static pod is its own workload, of the kind Pod or Node.

    `controllers`: the owner of each ReplicaSet and Job, or None. If one is missing, the labels of the pod show its
    owner.
    """

    def owner_of(direct: Workload) -> OwnerReference | None:
        return controllers[direct.namespace, direct.kind, direct.name]

    owners: dict[str, Key] = {}
    for pod in pods:
        try:
            workload = workload_of(pod, owner_of)
        except KeyError:
            workload = workload_from_pod(pod)
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if workload is not None:
            owners[f"{namespace}/{name}"] = (namespace, workload.kind, workload.name)
        else:
            owners[f"{namespace}/{name}"] = (namespace, "Node" if pod.metadata.controller else "Pod", name)
    return owners


def inventory(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    owners: Mapping[str, Key],
    budgets: Sequence[PodDisruptionBudget] | None = (),
) -> Inventory:
    """The inventory of pods on nodes, without finished, pending and terminating ones. Raises RecordError without nodes.

    Requests, limits, tolerations, priority and rules of a workload are those of its newest pod. `budgets`: None if they
    cannot be listed.
    """
    known_nodes = {node.name: node for item in nodes if (node := _node(item)) is not None}
    if not known_nodes:
        raise RecordError("the API server has no node with CPU and memory: is this the right cluster (--context)?")
    placed = [
        pod
        for pod in pods
        if occupies_node(pod) and pod.metadata.deletion_timestamp is None and pod.spec.node_name in known_nodes
    ]
    newest: dict[Key, Pod] = {}
    for pod in placed:
        key = owners[_full_name(pod)]
        if key not in newest or _creation(pod) > _creation(newest[key]):
            newest[key] = pod
    indices = {key: index for index, key in enumerate(sorted(newest))}
    pods_of: defaultdict[Key, list[Pod]] = defaultdict(list)
    for pod in placed:
        pods_of[owners[_full_name(pod)]].append(pod)
    spread = {key: _recorded_spread(key, newest[key], pods_of) for key in indices}
    selected = {
        f"{budget.metadata.namespace}/{budget.metadata.name}": (budget, _selected_workloads(budget, pods_of))
        for budget in budgets or ()
    }
    return Inventory(
        nodes=tuple(known_nodes.values()),
        workloads=tuple(_workload(key, newest[key], spread[key]) for key in indices),
        pods=tuple(
            TracePod(name=pod.metadata.name, workload=indices[owners[_full_name(pod)]], node=pod.spec.node_name)
            for pod in placed
        ),
        rules=tuple(
            AntiAffinity(beside=index, limited=index, most=1)
            for key, index in indices.items()
            if repels_itself(newest[key])
        ),
        budgets=tuple(
            _recorded_budget(budget, [indices[key] for key in keys]) for budget, keys in selected.values() if keys
        ),
        notes=(
            *_notes(nodes, pods, placed, newest, spread),
            *_budget_notes([name for name, (_, keys) in selected.items() if keys is None], known=budgets is not None),
        ),
    )


def repels_itself(pod: Pod) -> bool:
    """Whether required anti-affinity excludes a second pod like this one from its node."""
    info = PodInfo(pod)
    return any(
        term.topology_key == HOSTNAME
        # The labels of namespaces are not recorded. A namespace selector counts as selecting the pod's namespace.
        and (info.namespace in term.namespaces or term.namespace_selector is not None)
        and selects(term.selector, info.labels)
        for term in info.required_anti_affinity
    )


def _node(node: Node) -> TraceNode | None:
    """The node of a trace; None for a node that reports no resources.

    Amplified allocatable amounts are replaced by the original ones, as for load.
    """
    amounts, (region, zone) = base_of(node, "allocatable"), zone_of(node)
    cpu, memory = (parse_quantity(amounts.get(resource, "0")) for resource in ("cpu", "memory"))
    if cpu <= 0 or memory <= 0:
        return None
    return TraceNode(
        name=node.metadata.name,
        cpu_milli=_whole(cpu, 1e-3),
        memory_mib=_whole(memory, MIB),
        pods=round(parse_quantity(amounts.get("pods", "110"))),
        taints=tuple(TraceTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints),
        zone=zone,
        region=region,
        extended_resources=_extended_resources({name: parse_quantity(text) for name, text in amounts.items()}),
    )


def _recorded_spread(key: Key, pod: Pod, pods_of: Mapping[Key, Sequence[Pod]]) -> tuple[TraceSpreadConstraint, ...]:
    """The topology spread constraints of the workload's newest pod that mean the same in a trace.

    Pods have other labels in a trace. Therefore only constraints are recorded that count the pods of this workload
    alone. Since 1.34 the API server adds the keys of matchLabelKeys to the selector; such selectors are not recorded.
    """
    if not pod.spec.topology_spread_constraints:
        return ()
    others = [
        each.metadata.labels for other, pods in pods_of.items() if other != key and other[0] == key[0] for each in pods
    ]
    return tuple(
        TraceSpreadConstraint(**(msgspec.structs.asdict(each) | {"label_selector": None}))
        for each in pod.spec.topology_spread_constraints
        if each.topology_key in get_args(TopologyKey)
        and {REVISION}.issuperset(each.match_label_keys)
        and selects(each.label_selector, pod.metadata.labels)
        and not any(selects(each.label_selector, labels) for labels in others)
    )


def _selected_workloads(budget: PodDisruptionBudget, pods_of: Mapping[Key, Sequence[Pod]]) -> Sequence[Key] | None:
    """The workloads whose pods the budget selects.

    None if it selects only some pods of a workload, which a trace cannot express.
    """
    selected = []
    for key, pods in sorted(pods_of.items()):
        if key[0] != budget.metadata.namespace:
            continue
        matching = sum(selects(budget.spec.selector, pod.metadata.labels) for pod in pods)
        if 0 < matching < len(pods):
            return None
        if matching:
            selected.append(key)
    return selected


def _recorded_budget(budget: PodDisruptionBudget, workloads: Sequence[int]) -> TraceBudget:
    spec = budget.spec
    # With neither amount, the disruption controller allows no disruption.
    most = 0 if spec.min_available is None and spec.max_unavailable is None else spec.max_unavailable
    return TraceBudget(
        name=budget.metadata.name,
        workloads=tuple(workloads),
        min_available=spec.min_available,
        max_unavailable=most,
    )


def _budget_notes(omitted: Sequence[str], *, known: bool) -> list[str]:
    if not known:
        return ["PodDisruptionBudgets could not be listed; the trace contains none"]
    first = ", ".join(omitted[:3]) + (", …" if len(omitted) > 3 else "")
    return [f"omitted PodDisruptionBudgets that select only some pods of a workload: {first}"] if omitted else []


def _workload(key: Key, pod: Pod, spread: tuple[TraceSpreadConstraint, ...]) -> TraceWorkload:
    namespace, kind, name = key
    requests = pod_requests(pod)
    start = pod_requests(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=[], resources=None))
    )
    cpu_limit, memory_limit = pod_limit(pod, "cpu"), pod_limit(pod, "memory")
    return TraceWorkload(
        name=name,
        namespace=namespace,
        kind=kind,
        request_cpu_milli=_whole(requests.get("cpu", 0.0), 1e-3),
        request_memory_mib=_whole(requests.get("memory", 0.0), MIB),
        limit_cpu_milli=None if cpu_limit is None else _whole(cpu_limit, 1e-3),
        limit_memory_mib=None if memory_limit is None else _whole(memory_limit, MIB),
        tolerations=tuple(pod.spec.tolerations),
        topology_spread=spread,
        priority=pod.spec.priority,
        preemption_policy="Never" if pod.spec.preemption_policy == "Never" else "PreemptLowerPriority",
        extended_resources=_extended_resources(requests),
        gang=gang_of(pod).replace("/", " "),  # names of a trace have no slashes
        start_cpu_milli=_whole(start.get("cpu", 0.0), 1e-3),
        start_memory_mib=_whole(start.get("memory", 0.0), MIB),
        containers=(
            *(container.name for container in pod.spec.containers or ()),
            *(sidecar.name for sidecar in pod.spec.init_containers if sidecar.restart_policy == "Always"),
        ),
    )


def _extended_resources(amounts: Amounts) -> dict[str, int]:
    """The amounts of device plugins, such as GPUs: their names have a domain that is not of Kubernetes."""
    return {
        name: round(amount)
        for name, amount in amounts.items()
        if "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
    }


def _whole(amount: float, unit: float) -> int:
    """The amount in units, rounded; a positive amount remains positive."""
    return max(1, round(amount / unit)) if amount > 0 else 0


def _full_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _creation(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)


def _notes(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    placed: Sequence[Pod],
    newest: Mapping[Key, Pod],
    spread: Mapping[Key, Sequence[TraceSpreadConstraint]],
) -> list[str]:
    """Notes about what the trace omits."""
    notes = []
    amplified = sum(base_of(node, "allocatable") != node.status.allocatable for node in nodes)
    if amplified:
        notes.append(f"{amplified} nodes have amplified allocatable; the trace contains the original values")
    if omitted_pods := len(pods) - len(placed):
        notes.append(f"omitted: {omitted_pods} pods that are finished, terminating, or without a node")
    movable = {key: pod for key, pod in newest.items() if key[1] not in ("DaemonSet", "Node")}
    counts = {name: sum(map(rule, movable.values())) for name, rule in _OMITTED_RULES.items()}
    counts[
        "topology spread constraints with other topology keys, or that count pods of other workloads or by other labels"
    ] = sum(len(spread[key]) < len(pod.spec.topology_spread_constraints) for key, pod in movable.items())
    if omitted := [f"{name} ({count})" for name, count in counts.items() if count]:
        notes.append(f"omitted scheduling rules, by number of workloads: {', '.join(omitted)}")
    return notes


def _wider_anti_affinity(pod: Pod) -> bool:
    rules = (pod.spec.affinity or Affinity()).pod_anti_affinity
    return rules is not None and any(
        term.topology_key != HOSTNAME or not selects(term.label_selector, pod.metadata.labels)
        for term in rules.required
    )


_OMITTED_RULES: Mapping[str, Callable[[Pod], bool]] = {
    "node selectors and node affinity": lambda pod: PodInfo(pod).required_nodes is not None,
    "affinity to pods": lambda pod: bool(PodInfo(pod).required_affinity),
    "anti-affinity to other workloads or wider than a node": _wider_anti_affinity,
}
"""Scheduling rules of pods that a trace does not contain."""
