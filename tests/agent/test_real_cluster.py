"""The agent's program with a real API server, real cgroups and real processes."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.agent_process import AgentProcess
from agent.real_cgroups import RealCgroups, real_cgroups
from cluster_fixtures import StartCluster

from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node
from equipoise.testbed.processes.command_lines import API_SERVER

ACCOUNT = "equipoise-agent"
THREADS = 3
"""Of an agent: the rounds, the watch and the health port."""

ACCESS: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": "jobs"},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "jobs"}],
    },
]
"""All that the agent needs."""

AMOUNTS = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}

JOBS: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "job", "namespace": "jobs"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "job"}},
        "template": {
            "metadata": {"labels": {"app": "job"}},
            "spec": {
                "nodeName": "alpha",
                "containers": [{"name": "main", "image": "x", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}],
            },
        },
    },
}


@pytest.fixture
def real() -> Iterator[RealCgroups]:
    with real_cgroups() as cgroups:
        yield cgroups


@pytest.fixture
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha")])
    await cluster.apply([namespace("jobs"), *ACCESS, JOBS])
    return cluster


async def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  of another process
            await asyncio.sleep(0.05)
    assert condition(), what


async def pod_group(cluster: Cluster) -> str:
    pods = await cluster.wait(
        "/api/v1/namespaces/jobs/pods",
        lambda pods: any(pod["status"].get("phase") == "Running" for pod in pods["items"]),
        what="the batch pod runs",
    )
    return f"kubepods/besteffort/pod{pods['items'][0]['metadata']['uid']}"


async def test_the_program_limits_survives_and_restores(cluster: Cluster, real: RealCgroups, tmp_path: Path) -> None:
    """SIGKILL changes nothing and a restart goes on, without the API server too; SIGTERM restores; then an eviction."""
    group = await pod_group(cluster)
    real.make(group)
    token = await cluster.service_account_token("jobs", ACCOUNT)
    agent = AgentProcess(cluster, "alpha", real.top, token, tmp_path)

    def quota() -> str:
        return real.get(group, "cpu.cfs_quota_us")

    with agent.running():
        await until(lambda: quota() == "100000", "the pods of the node are watched")
        await until(agent.ready, "it is ready")
        status, metrics = agent.get("/metrics")
        assert status == 200
        assert 'equipoise_agent_pods{band="batch"} 1' in metrics
        assert agent.memory() < 25
        agent.end(signal.SIGKILL)
        assert quota() == "100000"
    with agent.running():
        await until(agent.ready, "it is ready again")
        cluster.kill(API_SERVER)
        await until(lambda: any("are not received" in each for each in agent.problems()), "the silence is a problem")
        real.put(group, "cpu.cfs_quota_us", "-1")
        await until(lambda: quota() == "100000", "limits are kept without the API server")
        cluster.restart(API_SERVER)
        await until(lambda: not any("are not received" in each for each in agent.problems()), "it is connected again")
        assert agent.end(signal.SIGTERM) == 0
        assert quota() == "-1"
        assert real.get(group, "cpu.shares") == "2"
    real.run(group, "x = b'x' * 30_000_000; import time; time.sleep(600)")
    eviction = {"threshold": 0.2, "release": 0.1}
    with agent.running(evict=True, memoryEviction=eviction):
        await until(lambda: bool(cluster.evictions()), "the batch pod is evicted")
        await until(lambda: 'reason="memory",result="evicted"' in agent.get("/metrics")[1], "it is counted")


async def test_the_same_process_uses_changed_configurations(
    cluster: Cluster, real: RealCgroups, tmp_path: Path
) -> None:
    """Takes seconds: the file is read every five. The watch and the threads of the last configuration end."""
    group = await pod_group(cluster)
    real.make(group)
    token = await cluster.service_account_token("jobs", ACCOUNT)
    agent = AgentProcess(cluster, "alpha", real.top, token, tmp_path)

    def limit() -> str:
        return real.get(group, "cpu.cfs_quota_us")

    with agent.running():
        await until(agent.ready, "it is ready")
        image, used = agent.image(), {"", agent.configuration()}
        for period in (0.3, 0.4):
            agent.configure(period=period)
            await until(lambda: agent.configuration() not in used, "the change is used")
            used.add(agent.configuration())
            await until(agent.ready, "it is ready again")
            await until(lambda: agent.threads() <= THREADS, "nothing of the last configuration runs")
            real.put(group, "cpu.cfs_quota_us", "-1")
            await until(lambda: limit() == "100000", "the limits are kept")
        assert agent.image() == image
        assert agent.memory() < 25
        assert agent.end(signal.SIGTERM) == 0
        assert limit() == "-1"
