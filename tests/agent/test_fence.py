"""What the agent's account may evict, at a real API server with k8s/colocation and the permission to evict."""

import asyncio
from typing import Any

import pytest
from cluster_fixtures import StartCluster
from deployment.base import ROOT
from deployment.kustomize import Document, read_documents

from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import eviction, namespace, node, pod

COLOCATION = ROOT / "k8s" / "colocation"
AGENT = "equipoise-agent"
NOT_HERE = ("DaemonSet", "ConfigMap", "NetworkPolicy")


def a_pod(name: str, on: str, resource: str = "kubernetes.io/batch-cpu", *, of: str = "work") -> Document:
    requests = {resource: "100m" if resource == "cpu" else "100"}
    container = {"name": "main", "image": "fake", "resources": {"requests": requests, "limits": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "nodeName": on}}
    return pod(name, template, namespace=of)


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """Two nodes with pods of several kinds, and an agent on the node alpha."""
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha"), node("beta")])
    files = (COLOCATION / "agent.yaml", COLOCATION / "evictions" / "evictions.yaml")
    await cluster.apply([each for file in files for each in read_documents(file) if each["kind"] not in NOT_HERE])
    out = namespace("opted-out")
    out["metadata"]["annotations"] = {"equipoise.dev/evict": "false"}
    await cluster.apply([namespace("work"), out])
    agent = a_pod("agent-on-alpha", "alpha", "cpu", of=AGENT)
    agent["spec"]["serviceAccountName"] = AGENT
    await cluster.apply(
        [
            agent,
            a_pod("batch", "alpha"),
            a_pod("elsewhere", "beta"),
            a_pod("ordinary", "alpha", "cpu"),
            a_pod("protected", "alpha", of="opted-out"),
            a_pod("system", "alpha", of="kube-system"),
        ]
    )
    return cluster


async def token_of(cluster: Cluster, agent: str) -> str:
    """Of the ServiceAccount, bound to this pod as the kubelet requests it."""
    found = await cluster.request("GET", f"/api/v1/namespaces/{AGENT}/pods/{agent}")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": agent, "uid": found["metadata"]["uid"]}
    created = await cluster.request(
        "POST",
        f"/api/v1/namespaces/{AGENT}/serviceaccounts/{AGENT}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 600, "boundObjectRef": bound},
        },
    )
    token: str = created["status"]["token"]
    return token


class Agent:
    """Requests evictions as the agent on alpha, in dry runs."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def refusal(self, name: str, of: str = "work", **options: Any) -> str:
        """Why the API server refused it; "" when it did not."""
        found = await self._cluster.request("GET", f"/api/v1/namespaces/{of}/pods/{name}")
        body = eviction(name, namespace=of)
        body["deleteOptions"] = {"preconditions": {"uid": found["metadata"]["uid"]}, "dryRun": ["All"]} | options
        return await self.response("POST", f"/api/v1/namespaces/{of}/pods/{name}/eviction", body)

    async def response(self, method: str, path: str, body: Document) -> str:
        try:
            await self._cluster.request(method, path, body, token=self._token)
        except ApiError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
async def agent(cluster: Cluster) -> Agent:
    agent = Agent(cluster, await token_of(cluster, "agent-on-alpha"))
    async with asyncio.timeout(60):  # until the policies are in effect, and the API server has the pods
        while "own node" not in await agent.refusal("elsewhere") or await agent.refusal("batch"):  # noqa: ASYNC110  no event exists
            await asyncio.sleep(0.1)
    return agent


async def test_the_agent_may_evict_a_batch_pod_of_its_node(agent: Agent) -> None:
    assert await agent.refusal("batch") == ""


@pytest.mark.parametrize(
    ("name", "of", "why"),
    [
        ("elsewhere", "work", "pods of its own node"),
        ("ordinary", "work", "pods that request batch or mid resources"),
        ("protected", "opted-out", "has opted out"),
        ("system", "kube-system", "pods of the system"),
        ("agent-on-alpha", AGENT, "pods of the system or of Equipoise"),
    ],
)
async def test_the_agent_may_evict_no_other_pod(agent: Agent, name: str, of: str, why: str) -> None:
    assert why in await agent.refusal(name, of)


async def test_an_eviction_needs_the_uid_and_has_no_grace_period(agent: Agent) -> None:
    assert "with the UID" in await agent.refusal("batch", preconditions={})
    assert "grace period" in await agent.refusal("batch", gracePeriodSeconds=0)


async def test_a_token_that_is_bound_to_no_pod_evicts_nothing(cluster: Cluster, agent: Agent) -> None:
    token = await cluster.service_account_token(AGENT, AGENT)
    assert "own node" in await Agent(cluster, token.read_text()).refusal("batch")


async def test_the_agent_may_write_nothing_else(cluster: Cluster, agent: Agent) -> None:
    for method, path in (("DELETE", "pods/batch"), ("PATCH", "pods/batch/status"), ("POST", "events")):
        assert "403" in await agent.response(method, f"/api/v1/namespaces/work/{path}", {})
