"""A real kube-scheduler on a throwaway API server: what it decides for pods, with the scores of its plugins."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from scheduling.parity.common_objects import NAMESPACES, Document, namespaces, priority_classes
from scheduling.parity.generator import Change, ClusterGenerator
from scheduling.parity.outcome import Outcome, State
from scheduling.parity.scheduler_log import Attempt, read_attempts, read_node_order
from scheduling.parity.stored_objects import CLUSTER_WIDE, NAMESPACED, OTHERS
from scheduling.parity.volume_provisioner import provision

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster

SCHEDULER_ARGUMENTS = ("--vmodule=schedule_one=10,eventhandlers=4,node_tree=2",)
SYNCHRONOUS_PREEMPTION = "--feature-gates=SchedulerAsyncPreemption=false"
"""All victims are deleted before the pod is nominated: what is compared is complete by then."""

CONTROLLERS = (
    "*",
    # They would delete the pods of workloads that exist for their selectors only, and volumes that no driver attaches.
    "-replicaset-controller",
    "-statefulset-controller",
    "-replicationcontroller-controller",
    "-persistentvolume-attach-detach-controller",
    "-garbage-collector-controller",
    "-pod-garbage-collector-controller",
)
SECONDS = 60.0
POLL = 0.01


class RealScheduler:
    """One cluster at a time: `prepare`, then any number of `place` (or one `place_all`), then `clear`."""

    def __init__(self, *, victims_last: bool = False, configuration: Document | None = None) -> None:
        """`victims_last`: victims of a preemption remain as terminating pods."""
        self._victims_last = victims_last
        self._configuration: Document = configuration or {}
        gates = (SYNCHRONOUS_PREEMPTION,) if victims_last else ()
        self._cluster = Cluster(
            scheduler=self._configuration,
            arguments={
                "kube-scheduler": (*SCHEDULER_ARGUMENTS, *gates),
                "kube-controller-manager": (f"--controllers={','.join(CONTROLLERS)}",),
            },
        )

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
        """Returns when kube-scheduler knows all nodes and pods. A new configuration restarts it."""
        if generator.configuration != self._configuration:
            self._configuration = generator.configuration
            await asyncio.to_thread(self._cluster.restart_scheduler, self._configuration)
        nodes = generator.nodes()
        objects = generator.objects() if generator.objects_first else []
        budgets = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
        await self._put([each for each in objects if each not in budgets])
        for node in nodes:
            await self._api.request("POST", "/api/v1/nodes", node)
        existing = [each for each in generator.existing_pods() if await self._create(each)]
        if not generator.objects_first:
            objects = generator.objects()
            budgets = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
            await self._put([each for each in objects if each not in budgets])
        # They are counted once, with all pods.
        await self._api.apply(budgets)
        await self._settled(len(existing), len(budgets))
        for change in generator.prepared():
            await self._request(change)
        await self._known(len(nodes))

    async def state(self) -> State:
        others: list[Object] = []
        for path, kind, name in OTHERS:
            others += [msgspec.structs.replace(each, kind=name) for each in await self._list(path, kind)]
        return State(
            nodes=await self._list("/api/v1/nodes", Node),
            pods=await self._list("/api/v1/pods", Pod),
            others=others,
        )

    async def change(self, changes: Iterable[Change]) -> None:
        """Returns when kube-scheduler knows of them."""
        for change in changes:
            offset = self._log.stat().st_size
            await self._request(change)
            await self._logged(offset, change.seen)
            if change.method == "DELETE":
                continue
            node = f"/api/v1/nodes/{change.node}"
            await self._api.wait(node, lambda found: not _has_not_ready_taint(found), what=f"{node} is ready")
            # What is logged may be an earlier change of the node: those that follow are known after this one.
            for number in range(2):
                offset = self._log.stat().st_size
                await self._api.patch(node, {"metadata": {"annotations": {"settled": f"{offset}-{number}"}}})
                await self._logged(offset, f'"Update event for node" node="{change.node}"')

    async def place(self, document: Document, before: State) -> Outcome | None:
        """Returns when the pod runs, or has been removed again because no node was found.

        None: it is invalid, or a node has lost its heartbeat meanwhile, on a machine with too much work.
        """
        offset = self._log.stat().st_size
        created = await self._create(document)
        if created is None:
            return None
        path = _path(created)
        decided = await self._decided(path)
        node = decided["spec"].get("nodeName", "")
        if node:
            await self._api.wait(path, _runs, what=f"{path} runs")
        elif self._victims_last:
            node = decided["status"].get("nominatedNodeName", "")
        if not node:
            await self._delete(path)
        if await self._nodes_changed(before):
            return None
        attempts = [each for each in read_attempts(self._read_log(offset)) if each.pod == _key(created)]
        return msgspec.structs.replace(
            _outcome(created, node, attempts[-1] if attempts else Attempt(pod="")),
            message="" if node else _condition(decided).get("message", ""),
            failed=_condition(decided).get("reason") == "SchedulerError",
            removed=await self._removed(before),
        )

    async def place_all(self, documents: Sequence[Document]) -> tuple[State, Sequence[Outcome]]:
        """The attempts of kube-scheduler to place these pods, in its order, and the state before.

        The nodes of the state are in the order in which kube-scheduler has received them, which is a random one. No
        attempts: a node has lost its heartbeat meanwhile.
        """
        await asyncio.to_thread(self._cluster.kill, "kube-scheduler")
        before = await self.state()
        created = [pod for each in documents if (pod := await self._create(each)) is not None]
        offset = self._log.stat().st_size
        await asyncio.to_thread(self._cluster.restart, "kube-scheduler")
        decided = {_key(pod): (pod, await self._decided(_path(pod))) for pod in created}
        if await self._nodes_changed(before):
            return before, ()
        log = self._read_log(offset)
        nodes = {node.metadata.name: node for node in before.nodes}
        before = msgspec.structs.replace(before, nodes=[nodes[name] for name in read_node_order(log)])
        attempts = [each for each in read_attempts(log) if each.pod in decided]
        found = []
        for attempt in attempts:
            pod, document = decided[attempt.pod]
            node = "" if attempt.error is not None else document["spec"].get("nodeName", "")
            found.append(_outcome(pod, node, attempt))
            if attempt.error is None and not node:
                raise RuntimeError(f"{attempt.pod} has been placed, and has no node")
        return before, found

    async def clear(self) -> None:
        """Deletes what `prepare` and `place` have created."""
        for name in NAMESPACES:
            await self._api.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
            for path in NAMESPACED:
                await self._api.request("DELETE", path.format(name))
        for path in ("/api/v1/pods", "/api/v1/persistentvolumeclaims"):
            await self._api.wait(path, _is_empty, what=f"{path} is empty")
        for path in CLUSTER_WIDE:
            await self._api.request("DELETE", path)
        for path in CLUSTER_WIDE:
            await self._api.wait(path, _is_empty, what=f"{path} is empty")

    async def _put(self, objects: Sequence[Document]) -> None:
        """Creates the objects; those with a status are created first, and then updated, as their controllers do."""
        await self._api.apply([each for each in objects if each["kind"] != "PersistentVolumeClaim"])
        # A claim is bound as soon as it exists.
        await self._api.apply([each for each in objects if each["kind"] == "PersistentVolumeClaim"])

    async def _request(self, change: Change) -> None:
        if change.method == "PATCH":
            await self._api.patch(change.path, change.body)
        else:
            await self._api.request(change.method, change.path, change.body)

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

    async def _nodes_changed(self, before: State) -> bool:
        """Whether a controller has tainted one."""
        nodes = await self._list("/api/v1/nodes", Node)
        return {each.metadata.name: each.spec for each in nodes} != {
            each.metadata.name: each.spec for each in before.nodes
        }

    async def _removed(self, before: State) -> frozenset[str]:
        there = {each.metadata.uid for each in before.pods if each.metadata.deletion_timestamp is None}
        pods = await self._list("/api/v1/pods", Pod)
        return frozenset(there) - {each.metadata.uid for each in pods if each.metadata.deletion_timestamp is None}

    async def _settled(self, pods: int, budgets: int) -> None:
        """The nodes are ready, all pods run, and the controllers have counted budgets and bound claims."""
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
        await self._api.wait(
            "/api/v1/persistentvolumeclaims",
            lambda found: all(_is_bound(each) for each in found["items"] if each["spec"].get("volumeName")),
            what="claims are bound",
        )

    async def _known(self, nodes: int) -> None:
        """kube-scheduler receives a pod after those that were created earlier. Why it has no node counts the nodes."""
        path = "/api/v1/namespaces/default/pods"
        async with asyncio.timeout(SECONDS):
            while True:
                await self._api.request("POST", path, self._probe())
                message = _condition(await self._decided(f"{path}/probe")).get("message", "")
                await self._delete(f"{path}/probe")
                if message.startswith(f"0/{nodes} nodes"):
                    return

    def _probe(self) -> Document:
        profiles = self._configuration.get("profiles") or [{}]
        name = profiles[0].get("schedulerName", "default-scheduler")
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {
                "schedulerName": name,
                "containers": [{"name": "main", "image": "fake", "resources": {"requests": {"cpu": "1000000"}}}],
                "nodeSelector": {"no-node": "has-it"},
            },
        }

    async def _decided(self, path: str) -> Document:
        """A pod that was nominated to a node is awaited, unless the victims last."""
        async with asyncio.timeout(SECONDS):
            while True:
                pod: Document = await self._api.request("GET", path)
                refused = _condition(pod).get("message") and (
                    self._victims_last or not pod["status"].get("nominatedNodeName")
                )
                if pod["spec"].get("nodeName") or refused:
                    return pod
                if pod["spec"].get("volumes"):
                    await provision(self._api)
                await asyncio.sleep(POLL)

    async def _logged(self, offset: int, text: str) -> None:
        async with asyncio.timeout(SECONDS):
            while text not in self._read_log(offset):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(POLL)

    async def _list(self, path: str, kind: type[Any]) -> Sequence[Any]:
        found = (await self._api.request("GET", path))["items"]
        return [msgspec.convert(each, kind, strict=False) for each in found]

    def _read_log(self, offset: int) -> str:
        with self._log.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")


def _outcome(pod: Pod, node: str, attempt: Attempt) -> Outcome:
    return Outcome(
        pod=pod, node=node, message=attempt.error or "", scores=attempt.scores, scored=frozenset(attempt.scored)
    )


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _is_empty(found: Document) -> bool:
    return not found["items"]


def _is_bound(claim: Document) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def _has_not_ready_taint(node: Document) -> bool:
    """The API server adds it to every new node, and a controller removes it."""
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))


def _runs(pod: Document) -> bool:
    return bool(pod["status"].get("startTime")) and pod["status"].get("phase") == "Running"


def _condition(pod: Document) -> Mapping[str, str]:
    """PodScheduled, with the reason why the pod is on no node; empty: it has not been tried."""
    conditions = pod["status"].get("conditions", ())
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})
