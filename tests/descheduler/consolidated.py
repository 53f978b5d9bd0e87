"""Clusters whose nodes could go: pods with given days on nodes of 10 cores and 64 GiB."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from builders import GIB, NOW, a_node_utilization
from descheduler.cluster import moment
from descheduler.cluster_states import EVERY_HOUR, a_cluster, a_measured_day, a_node, a_pod, pod_info

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, HourlyUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.state.daily_usage import NodePods, UsageForecast

HOURS = np.arange(SLOTS)
BY_DAY = np.where((HOURS >= 8) & (HOURS < 20), 1.0, 0.0)
BY_NIGHT = 1.0 - BY_DAY
LONG_AGO = NOW - 7 * 86_400.0


class World:
    """Pods with a given day and no errors of their profiles, on nodes of 10 cores and 64 GiB."""

    def __init__(self) -> None:
        self.days: dict[Workload, HourlyUsage] = {}
        self.errors: dict[Workload, Resources] = {}
        self.measured: dict[str, Any] = {}
        """Measured hours by name of a node or pod. Default: all."""

        self._pods: dict[str, list[MovablePod]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}

    def node(self, name: str, *, created: float | None = LONG_AGO, **fields: Any) -> None:
        """`fields`: of the ClusterNode; `labels`, `annotations` and `taints` of its object."""
        self._pods[name] = []
        self._nodes[name] = {"created": created, **fields}

    def pod(self, name: str, node: str, cpu: Any, memory: float = 1.0, **fields: Any) -> None:
        """`cpu`: cores by hour; `memory`: GiB. It requests 0.1 core and a GiB."""
        defaults: dict[str, Any] = {"info": pod_info(name, {"cpu": 0.1, "memory": GIB})}
        pod = a_pod(name, node=node, **(defaults | fields))
        day = np.array([np.broadcast_to(cpu, SLOTS), np.full(SLOTS, memory * GIB)])
        assert pod.workload is not None
        self.days[pod.workload] = day
        self.errors.setdefault(pod.workload, Resources(cpu=0.0, memory=0.0))
        usage = Resources(cpu=float(np.mean(cpu)), memory=memory * GIB)
        self._pods[node].append(msgspec.structs.replace(pod, usage=usage))

    def error(self, pod: str, cpu: float | None) -> None:
        """The error of the profile of a pod, in cores; None: not recorded."""
        workload = next(each.workload for pods in self._pods.values() for each in pods if each.name == pod)
        assert workload is not None
        self.errors[workload] = Resources(cpu=cpu, memory=0.0)

    def cluster(self, **fields: Any) -> ClusterView:
        nodes = [self._node(name, dict(own)) for name, own in self._nodes.items()]
        return a_cluster(*nodes, **({"days": self._forecast()} | fields))

    def _node(self, name: str, fields: dict[str, Any]) -> ClusterNode:
        created, labels = fields.pop("created"), fields.pop("labels", {})
        annotations, taints = fields.pop("annotations", {}), fields.pop("taints", [])
        node = a_node(name, self._pods[name], **fields)
        metadata = msgspec.structs.replace(
            node.object.metadata,
            uid=f"uid-{name}",
            labels={**node.labels, **labels},
            annotations=annotations,
            creation_timestamp=None if created is None else moment(created),
        )
        spec = msgspec.structs.replace(node.object.spec, taints=taints)
        return msgspec.structs.replace(node, object=msgspec.structs.replace(node.object, metadata=metadata, spec=spec))

    def _forecast(self) -> UsageForecast:
        nodes = {
            name: a_measured_day(
                np.sum([np.zeros((2, SLOTS)), *(self.days[pod.workload] for pod in pods if pod.workload)], axis=0),
                self.measured.get(name, EVERY_HOUR),
            )
            for name, pods in self._pods.items()
        }
        workloads = {pod.workload: pod.name for pods in self._pods.values() for pod in pods}
        profiles = {
            workload: DailyProfile(
                usage=day, measured=self.measured.get(workloads[workload], EVERY_HOUR), error=self.errors[workload]
            )
            for workload, day in self.days.items()
        }
        return UsageForecast(profiles.get, self._pods_of, nodes)

    def _pods_of(self, names: Sequence[str]) -> list[NodePods]:
        return [
            NodePods(a_node_utilization(), [(pod.uid, pod.workload) for pod in self._pods[name]], not_used, {})
            for name in names
        ]


def not_used(uid: str, workload: Workload | None) -> Resources:
    """The usage of a pod without a profile: all have one."""
    raise AssertionError(f"{uid} has a profile")


def three_nodes(cores: float = 2.0) -> World:
    """Each with one pod."""
    world = World()
    for number in range(3):
        world.node(f"node-{number}")
        world.pod(f"pod-{number}", f"node-{number}", cores)
    return world
