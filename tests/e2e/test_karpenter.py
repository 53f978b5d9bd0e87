"""What the real Karpenter does with a node while a pod on it is moved without a gap."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from equipoise.binder.decisions.surge.detached_annotations import FORBIDDEN
from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, fleet
from equipoise.cli.demo.consolidation.nodes import make_nodes
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.nodes.consolidation_taint import CONSOLIDATION, EFFECT
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.karpenter import DISRUPTED, Karpenter, Policy, build_karpenter, start_karpenter
from equipoise.testbed.objects import Manifest, deployment, eviction, pod_disruption_budget, pod_template

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(3600)]  # the first run builds Karpenter

PODS = "/api/v1/namespaces/default/pods"
PATIENCE = 180.0
HASH = "5d4b"
NEVER_READY = "600s"
"""How long a replacement takes to become ready: longer than a test."""


@pytest.fixture(scope="module")
def karpenter() -> Karpenter:
    return build_karpenter()


class Move:
    """A cluster with two nodes: a detached pod on the one that is being emptied, its replacement on the other one."""

    def __init__(self, cluster: Cluster, api: Api, pod: str, node: str, replacement: str) -> None:
        self.cluster = cluster
        self.api = api
        self.pod = pod
        self.node = node
        self.replacement = replacement

    async def event(self, text: str) -> None:
        """Waits for an Event about the node: Karpenter has looked at it, and states why it keeps it."""
        await self.api.wait(
            f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={self.node}",
            lambda events: any(text in event["message"] for event in events["items"]),
            timeout=PATIENCE,
            what=f"an Event of Karpenter about the node: {text}",
        )

    async def node_is_kept(self) -> bool:
        node = await self.api.request("GET", f"/api/v1/nodes/{self.node}")
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        return DISRUPTED not in taints and "deletionTimestamp" not in node["metadata"]

    async def replacement_is_ready(self) -> bool:
        return _is_ready(await self.api.request("GET", f"{PODS}/{self.replacement}"))


def replica_set() -> Manifest:
    """Like that of a Deployment, but its template can be changed without a rollout."""
    template = pod_template("web", spec={"terminationGracePeriodSeconds": 1})
    template["metadata"]["labels"][TEMPLATE_HASH] = HASH
    return deployment("web", template) | {"kind": "ReplicaSet"}


@asynccontextmanager
async def open_move(
    binaries: Binaries, karpenter: Karpenter, policy: Policy, *, budget: bool = False, annotated: bool = True
) -> AsyncIterator[Move]:
    """A move whose replacement is not ready.

    `budget`: whether there is one that allows no eviction of the only replica. `annotated`: whether the pod has the
    annotation of detached pods that Karpenter reads.
    """
    async with Cluster(binaries=binaries) as cluster, cluster.api() as api:
        pid = await start_karpenter(cluster, api, karpenter, INSTANCE_TYPE)
        await make_nodes(api, fleet(1, 2), [])
        documents = [replica_set()]
        if budget:
            documents.append(pod_disruption_budget("web", "web", max_unavailable=0))
        await api.apply(documents)
        (first,) = await _pods(api, lambda pods: len(pods) == 1 and _is_ready(pods[0]), "the pod is ready")
        pod, node = first["metadata"]["name"], first["spec"]["nodeName"]
        taint = {"key": CONSOLIDATION, "value": "20260101T000000Z", "effect": EFFECT}
        await api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})
        delay = {"pod-ready.stage.kwok.x-k8s.io/delay": NEVER_READY}
        template = {"metadata": {"annotations": delay}}
        await api.patch("/apis/apps/v1/namespaces/default/replicasets/web", {"spec": {"template": template}})
        annotations = {DETACHED_HASH: HASH} | ({DO_NOT_DISRUPT: FORBIDDEN} if annotated else {})
        detached = {"labels": {TEMPLATE_HASH: None}, "annotations": annotations}
        await api.patch(f"{PODS}/{pod}", {"metadata": detached})
        both = await _pods(
            api, lambda pods: len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods), "both are placed"
        )
        (replacement,) = (each for each in both if each["metadata"]["name"] != pod)
        assert replacement["spec"]["nodeName"] != node
        # Its Event about why it keeps a node comes once in 15 minutes: so far, that it may remove none.
        await asyncio.to_thread(cluster.guard.stop, pid)
        await start_karpenter(cluster, api, karpenter, INSTANCE_TYPE, policy)
        yield Move(cluster, api, pod, node, replacement["metadata"]["name"])


async def _pods(api: Api, condition: Any, what: str) -> list[Any]:
    response = await api.wait(
        f"{PODS}?labelSelector=app=web", lambda pods: condition(pods["items"]), timeout=PATIENCE, what=what
    )
    pods: list[Any] = response["items"]
    return pods


def _is_ready(pod: Any) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", []))


async def test_with_when_empty_the_node_is_removed_after_the_pod_has_left_and_not_before(
    testbed_binaries: Binaries, karpenter: Karpenter
) -> None:
    """A pod without controller counts like any other one. Takes minutes: Karpenter's intervals cannot be set."""
    async with open_move(testbed_binaries, karpenter, "WhenEmpty") as move:
        await move.event("has consolidation policy WhenEmpty, but node is not empty")
        assert await move.node_is_kept()

        await move.api.request("POST", f"{PODS}/{move.pod}/eviction", eviction(move.pod))
        await move.api.wait(
            "/api/v1/nodes",
            lambda nodes: move.node not in {node["metadata"]["name"] for node in nodes["items"]},
            timeout=PATIENCE,
            what="Karpenter removes the empty node",
        )


async def test_with_balanced_a_budget_protects_the_pod_until_its_replacement_is_ready(
    testbed_binaries: Binaries, karpenter: Karpenter
) -> None:
    """The budget still selects the detached pod. Takes minutes, for the same reason."""
    async with open_move(testbed_binaries, karpenter, "Balanced", budget=True, annotated=False) as move:
        await move.event("prevents pod evictions")

        assert await move.node_is_kept()
        assert not await move.replacement_is_ready()


async def test_with_balanced_the_annotation_protects_the_pod_until_its_replacement_is_ready(
    testbed_binaries: Binaries, karpenter: Karpenter
) -> None:
    """Without a budget. Takes minutes, for the same reason."""
    async with open_move(testbed_binaries, karpenter, "Balanced") as move:
        await move.event(DO_NOT_DISRUPT)

        assert await move.node_is_kept()
        assert not await move.replacement_is_ready()
        assert not move.cluster.evictions()


async def test_without_budget_and_annotation_karpenter_ends_the_pod_before_its_replacement_is_ready(
    testbed_binaries: Binaries, karpenter: Karpenter
) -> None:
    """So the annotation is needed (docs/decisions/0084). Takes minutes, for the same reason."""
    async with open_move(testbed_binaries, karpenter, "Balanced", annotated=False) as move:
        await _pods(
            move.api, lambda pods: move.pod not in {pod["metadata"]["name"] for pod in pods}, "Karpenter evicts the pod"
        )

        assert [logged.pod for logged in move.cluster.evictions() if logged.succeeded] == [move.pod]
        assert not await move.replacement_is_ready()
