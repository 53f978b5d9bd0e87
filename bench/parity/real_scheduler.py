"""A real kube-scheduler on a throwaway API server: what it decides for one pod, with the scores of its plugins."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from bench.parity.generator import ClusterGenerator, Document, namespaces, priority_classes
from equipoise.contracts.kubernetes.objects import KubernetesService, Namespace, Node, Pod, PodDisruptionBudget
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster

T = TypeVar("T")

LOG_SCORES = ("--vmodule=schedule_one=10",)
SECONDS = 30.0
POLL = 0.01

_SCORE = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>[^"]+)" node="(?P<node>[^"]+)" '
    r"score=(?P<score>-?\d+)"
)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    namespaces: Sequence[Namespace]
    budgets: Sequence[PodDisruptionBudget]
    services: Sequence[KubernetesService]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler did with a pod."""

    pod: Pod
    """As it was created."""

    node: str
    """Empty: none."""

    message: str
    """Why there is no node."""

    removed: frozenset[str]
    """UIDs of pods that are gone: the victims of a preemption."""

    scores: Mapping[str, Mapping[str, int]]
    """By plugin and node, normalized and weighted, of the last attempt. Empty with one feasible node."""


class RealScheduler:
    """One cluster at a time: `prepare`, then any number of `place`, then `clear`."""

    def __init__(self) -> None:
        self._cluster = Cluster(arguments={"kube-scheduler": LOG_SCORES})

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        self._api = await self._cluster.api().__aenter__()
        await self._api.apply([*namespaces(), *priority_classes()])
        self._log: Path = self._cluster.log("kube-scheduler")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)
        await self._cluster.__aexit__(kind, error, trace)

    async def prepare(self, generator: ClusterGenerator) -> None:
        """Returns when kube-scheduler knows all nodes and pods."""
        for node in generator.nodes():
            await self._api.request("POST", "/api/v1/nodes", node)
        existing = [each for each in generator.existing_pods() if await self._create(each)]
        budgets = generator.budgets()
        await self._api.apply([*budgets, *generator.services()])
        await self._settled(len(existing), len(budgets))
        await self._known(len(generator.names))

    async def state(self) -> State:
        return State(
            nodes=await self._list("/api/v1/nodes", Node),
            pods=await self._list("/api/v1/pods", Pod),
            namespaces=await self._list("/api/v1/namespaces", Namespace),
            budgets=await self._list("/apis/policy/v1/poddisruptionbudgets", PodDisruptionBudget),
            services=await self._list("/api/v1/services", KubernetesService),
        )

    async def place(self, document: Document, before: State) -> Outcome | None:
        """Returns when the pod runs, or has been removed again because no node was found. None: it is invalid."""
        offset = self._log.stat().st_size
        created = await self._create(document)
        if created is None:
            return None
        path = f"/api/v1/namespaces/{created.metadata.namespace}/pods/{created.metadata.name}"
        decided = await self._decided(path)
        node = decided["spec"].get("nodeName", "")
        if node:
            await self._api.wait(path, _runs, what=f"{path} runs")
        else:
            await self._delete(path)
        left = {pod.metadata.uid for pod in await self._list("/api/v1/pods", Pod)}
        return Outcome(
            pod=created,
            node=node,
            message=_message(decided),
            removed=frozenset(pod.metadata.uid for pod in before.pods) - left,
            scores=self._scores(f"{created.metadata.namespace}/{created.metadata.name}", offset),
        )

    async def clear(self) -> None:
        """Deletes nodes, pods and budgets."""
        for name in ("alpha", "beta", "gamma"):
            await self._api.request("DELETE", f"/apis/policy/v1/namespaces/{name}/poddisruptionbudgets")
            await self._api.request("DELETE", f"/api/v1/namespaces/{name}/services")
            await self._api.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
        await self._api.wait("/api/v1/pods", lambda found: not found["items"], what="all pods are gone")
        await self._api.request("DELETE", "/api/v1/nodes")
        await self._api.wait("/api/v1/nodes", lambda found: not found["items"], what="all nodes are gone")

    async def _create(self, document: Document) -> Pod | None:
        """None if the API server finds it invalid."""
        try:
            path = f"/api/v1/namespaces/{document['metadata']['namespace']}/pods"
            return msgspec.convert(await self._api.request("POST", path, document), Pod, strict=False)
        except ApiError as error:
            if error.status == 422:
                return None
            raise

    async def _delete(self, path: str) -> None:
        await self._api.request("DELETE", f"{path}?gracePeriodSeconds=0")

    async def _settled(self, pods: int, budgets: int) -> None:
        """The nodes are ready, all pods run, and the controller has counted them for the budgets."""
        await self._api.wait(
            "/api/v1/nodes",
            lambda found: not any(map(_has_not_ready_taint, found["items"])),
            what="the nodes are ready",
        )
        await self._api.wait(
            "/api/v1/pods",
            lambda found: len(found["items"]) == pods and all(map(_runs, found["items"])),
            what=f"{pods} pods run",
        )
        await self._api.wait(
            "/apis/policy/v1/poddisruptionbudgets",
            lambda found: (
                len(found["items"]) == budgets
                and all(each.get("status", {}).get("observedGeneration") for each in found["items"])
            ),
            what="budgets are counted",
        )

    async def _known(self, nodes: int) -> None:
        """kube-scheduler receives a pod after those that were created earlier. Why it has no node counts the nodes."""
        path = "/api/v1/namespaces/default/pods"
        async with asyncio.timeout(SECONDS):
            while True:
                await self._api.request("POST", path, PROBE)
                message = _message(await self._decided(f"{path}/probe"))
                await self._delete(f"{path}/probe")
                if message.startswith(f"0/{nodes} nodes"):
                    return

    async def _decided(self, path: str) -> Document:
        """A pod that was nominated to a node is awaited."""
        async with asyncio.timeout(SECONDS):
            while True:
                pod: Document = await self._api.request("GET", path)
                refused = _message(pod) and not pod["status"].get("nominatedNodeName")
                if pod["spec"].get("nodeName") or refused:
                    return pod
                await asyncio.sleep(POLL)

    async def _list(self, path: str, kind: type[T]) -> Sequence[T]:
        found = (await self._api.request("GET", path))["items"]
        return [msgspec.convert(each, kind, strict=False) for each in found]

    def _scores(self, pod: str, offset: int) -> Mapping[str, Mapping[str, int]]:
        with self._log.open("rb") as file:
            file.seek(offset)
            text = file.read().decode(errors="replace")
        found: dict[str, dict[str, int]] = {}
        for match in _SCORE.finditer(text):
            if match["pod"] == pod:
                found.setdefault(match["plugin"], {})[match["node"]] = int(match["score"])
        return found


def _has_not_ready_taint(node: Document) -> bool:
    """The API server adds it to every new node, and a controller removes it."""
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))


def _runs(pod: Document) -> bool:
    return bool(pod["status"].get("startTime")) and pod["status"].get("phase") == "Running"


def _message(pod: Document) -> str:
    """Why it is on no node; empty: it is, or has not been tried."""
    conditions = pod["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


PROBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "fake"}], "nodeSelector": {"no-node": "has-it"}},
}
