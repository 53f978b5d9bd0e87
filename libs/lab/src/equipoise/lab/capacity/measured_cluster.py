"""The cluster of a trace at the start of a day, as the descheduler sees it: objects, messages and learned profiles."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from equipoise.collector.settings import ProfileSettings
from equipoise.collector.state.workloads import LearnedProfile
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot
from equipoise.lab.model.anti_affinity import AntiAffinityIndex
from equipoise.lab.model.cluster_objects import node_labels, node_object, pod_template
from equipoise.lab.model.cluster_usage import MIB, UsageCurves
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated.collector import limits_of, requests_of, workload_of

HOUR = 3_600.0
HOURS = 24
DAY = HOUR * HOURS

_WEIGHT = ProfileSettings().weight
_EPOCH = datetime.fromtimestamp(0, UTC)


def learned_profiles(hours: Array, until: int, origin: float) -> list[LearnedProfile]:
    """The profile of each workload after the first `until` days, with its errors, learned as the collector does.

    `hours`: workloads × hours × (cores, bytes) of one pod. `origin`: the Unix time of the first hour.
    """
    profiles = [LearnedProfile() for _ in hours]
    for profile, rows in zip(profiles, hours[:, : until * HOURS].tolist(), strict=True):
        for hour, (cpu, memory) in enumerate(rows, start=1):
            profile.add(origin + hour * HOUR, HOUR, Resources(cpu=cpu, memory=memory), _WEIGHT)
    return profiles


def snapshot_of(
    trace: Trace,
    nodes_of_pods: Sequence[int],
    profiles: Sequence[LearnedProfile],
    *,
    day: int,
    load: LoadSettings,
) -> Snapshot:
    """The snapshot at the start of a day (the first one is 0), measured completely until then.

    `nodes_of_pods`: the index of the node of each pod. `profiles`: those of the workloads. Every pod has run for as
    long as any window.
    """
    now = trace.starts_at + day * DAY
    curves = UsageCurves(trace)
    means = {window.name: curves.mean(day * DAY - window.length, day * DAY) for window in load.windows}
    pods_of: list[list[int]] = [[] for _ in trace.nodes]
    for pod, index in enumerate(nodes_of_pods):
        pods_of[index].append(pod)
    workloads = [workload_of(workload) for workload in trace.workloads]
    replicas = dict(zip(workloads, trace.replicas().tolist(), strict=True))
    numbers = {workload: number for number, workload in enumerate(workloads)}
    anti_affinity = AntiAffinityIndex(trace.rules, len(trace.nodes))
    for pod, index in enumerate(nodes_of_pods):
        anti_affinity.place(trace.pods[pod].workload, index)
    templates = [pod_template(workload) for workload in trace.workloads]
    objects = ApiObjects(
        replicas=lambda workload: replicas[workload],
        excluded=lambda workload: _excluded(trace, anti_affinity, numbers[workload]),
        all_nodes={node.name: _existing(node_object(node)) for node in trace.nodes},
        template=lambda uid: templates[trace.pods[int(uid)].workload].pod,
    )
    placements: dict[str, NodePlacement] = {}
    nodes: dict[str, NodeUtilization] = {}
    for node, own in zip(trace.nodes, pods_of, strict=True):
        base = Resources(cpu=node.cpu_milli / 1_000.0, memory=node.memory_mib * MIB)
        placed = [_placed(trace, pod, now - 2 * DAY) for pod in own]
        placements[node.name] = placement = NodePlacement(
            node=node.name, uid=node.name, labels=node_labels(node), ready=True, allocatable=base, capacity=base,
            pod_capacity=node.pods, pods=placed, epoch=1, sequence=1,
        )  # fmt: skip
        objects.on_placement(placement)
        rows = [trace.pods[pod].workload for pod in own]
        shortest = means[load.shortest.name]
        nodes[node.name] = NodeUtilization(
            node=node.name, uid=node.name, base=base, sampled_at=now, queried_at=now,
            windows={name: WindowUsage(sampled_at=now, mean=_resources(mean[rows].sum(axis=0)))
                     for name, mean in means.items()},
            system=Resources(cpu=0.0, memory=0.0),
            pods={str(pod): _resources(shortest[row]) for pod, row in zip(own, rows, strict=True)},
            epoch=1, sequence=1,
        )  # fmt: skip
    count = len(trace.nodes)
    return Snapshot(
        now=now,
        watched=objects.watched(()),
        nodes=nodes,
        workloads={
            workload: WorkloadUtilization(
                workload=workload, replicas=max(1, replicas[workload]), sampled_at=now, queried_at=now,
                windows={name: WindowUsage(sampled_at=now, mean=_resources(mean[number]))
                         for name, mean in means.items()},
                profile=profiles[number].by_resource(), forecast_error=profiles[number].forecast_error,
                epoch=1, sequence=1,
            )
            for number, workload in enumerate(workloads)
        },
        cycles=[UtilizationCycle(shard="0", cycle=1, expected=count, fresh=count, queried_at=now, epoch=1, sequence=1)],
        placements=placements,
    )  # fmt: skip


def _excluded(trace: Trace, anti_affinity: AntiAffinityIndex, workload: int) -> list[str]:
    """The nodes that rules of the trace exclude for a pod of the workload, by where the pods are at the start."""
    excluded = anti_affinity.excluded(workload)
    return [] if excluded is None else [trace.nodes[node].name for node in np.flatnonzero(excluded).tolist()]


def _existing(node: Node) -> Node:
    """The node with an age, which is known to be high."""
    metadata = msgspec.structs.replace(node.metadata, creation_timestamp=_EPOCH)
    return msgspec.structs.replace(node, metadata=metadata)


def _placed(trace: Trace, pod: int, since: float) -> PlacedPod:
    workload = trace.workloads[trace.pods[pod].workload]
    return PlacedPod(
        uid=str(pod), namespace=workload.namespace, name=f"{trace.pods[pod].name}", workload=workload_of(workload),
        placed_at=since, running_since=since, requests=requests_of(workload), limits=limits_of(workload),
    )  # fmt: skip


def _resources(amounts: Array) -> Resources:
    return Resources(cpu=float(amounts[0]), memory=float(amounts[1]))


def leveled(trace: Trace, days: Array) -> list[int]:
    """A node for each pod: the one whose highest hour is then the lowest, of those that have room for its requests.

    `days`: workloads × 24 × (cores, bytes), the forecast day of a pod. The pods with the highest hours come first. If
    no node has room, that with the most room takes the pod. Pods with a node in the trace keep it.
    """
    rows = {node.name: row for row, node in enumerate(trace.nodes)}
    capacity = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
    requested = np.array([(w.request_cpu_milli / 1_000.0, w.request_memory_mib * MIB) for w in trace.workloads])
    free, used = capacity.copy(), np.zeros((len(capacity), HOURS))
    nodes = [-1] * len(trace.pods)
    peak = days[:, :, 0].max(axis=1)
    order = sorted(range(len(nodes)), key=lambda pod: (not trace.pods[pod].node, -peak[trace.pods[pod].workload], pod))
    for pod in order:
        workload = trace.pods[pod].workload
        if trace.pods[pod].node:
            node = rows[trace.pods[pod].node]
        else:
            room = (free >= requested[workload]).all(axis=1)
            highest = ((used + days[workload, :, 0]) / capacity[:, :1]).max(axis=1)
            node = int(np.where(room, highest, np.inf).argmin() if room.any() else free[:, 0].argmax())
        nodes[pod] = node
        free[node] -= requested[workload]
        used[node] += days[workload, :, 0]
    return nodes
