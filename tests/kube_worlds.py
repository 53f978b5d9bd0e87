"""The worlds that tests of the API server's side run in: one in memory, one real."""

import asyncio
from typing import Protocol

from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, PodDisruptionBudgetSpec
from equipoise.runtime.kubernetes.client import BUDGETS, NAMESPACES, PODS, Kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.testbed import objects as manifests
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "shop"


class World(Protocol):
    """An API server and what a test needs done in it."""

    @property
    def kube(self) -> Kube: ...

    @property
    def clock(self) -> Clock: ...

    async def run_pod(self, app: str) -> Pod:
        """One that runs, labelled with its app and owned by a workload."""
        ...

    async def pending_pod(self, name: str) -> Pod:
        """One that no scheduler takes."""
        ...

    async def forbid_disruption(self, app: str, budget: str) -> None:
        """A PodDisruptionBudget that allows nothing."""
        ...

    async def remove(self, pod: Pod) -> None: ...


class MemoryWorld:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.kube = MemoryKube(clock)
        self.kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=NAMESPACE)))

    async def run_pod(self, app: str) -> Pod:
        return self.kube.put(
            PODS,
            Pod(
                metadata=ObjectMeta(name=f"{app}-1", namespace=NAMESPACE, labels={"app": app}),
                spec=PodSpec(node_name="node-a"),
                status=PodStatus(phase="Running"),
            ),
        )

    async def pending_pod(self, name: str) -> Pod:
        return self.kube.put(
            PODS,
            Pod(
                metadata=ObjectMeta(name=name, namespace=NAMESPACE),
                spec=PodSpec(scheduler_name="nobody"),
                status=PodStatus(phase="Pending"),
            ),
        )

    async def forbid_disruption(self, app: str, budget: str) -> None:
        self.kube.put(
            BUDGETS,
            PodDisruptionBudget(
                metadata=ObjectMeta(name=budget, namespace=NAMESPACE),
                spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
            ),
        )

    async def remove(self, pod: Pod) -> None:
        self.kube.remove(PODS, pod.metadata.name, pod.metadata.namespace)


class RealWorld:
    def __init__(self, cluster: Cluster, kube: Kube) -> None:
        self.cluster = cluster
        self.kube = kube
        self.clock: Clock = SystemClock()

    async def run_pod(self, app: str) -> Pod:
        template = manifests.pod_template(app)
        await self.cluster.apply([manifests.deployment(app, template, namespace=NAMESPACE)])
        async with asyncio.timeout(60):
            while True:
                for pod in await self.kube.list(PODS, NAMESPACE, f"app={app}"):
                    ready = any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)
                    if ready and pod.metadata.deletion_timestamp is None:
                        return pod
                await asyncio.sleep(0.05)

    async def pending_pod(self, name: str) -> Pod:
        template = manifests.pod_template(name, spec={"schedulerName": "nobody"})
        await self.cluster.apply([manifests.pod(name, template, namespace=NAMESPACE)])
        return await self.kube.get(PODS, name, NAMESPACE)

    async def forbid_disruption(self, app: str, budget: str) -> None:
        await self.cluster.apply(
            [manifests.pod_disruption_budget(budget, app, max_unavailable=0, namespace=NAMESPACE)]
        )  # fmt: skip
        async with asyncio.timeout(60):
            while (await self.kube.get(BUDGETS, budget, NAMESPACE)).status.expected_pods == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def remove(self, pod: Pod) -> None:
        path = PODS.path(pod.metadata.namespace, pod.metadata.name)
        await self.cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")
