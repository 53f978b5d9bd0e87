"""`equipoise install` and `equipoise uninstall` with a real helm, API server and fake kubelets."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE
from deployment.helm import CHART, Helm
from deployment.prepare import prepare_documents

from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm


def run(cluster: Cluster, helm: Helm, *arguments: str | Path) -> str:
    """Standard output and errors."""
    program = Path(sys.executable).with_name("equipoise")
    environment = {
        "PATH": f"{helm.program.parent}:{os.environ['PATH']}",
        "HOME": str(helm.home),
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    done = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


async def names(api: Api, path: str) -> set[str]:
    return {each["metadata"]["name"] for each in (await api.request("GET", path))["items"]}


async def test_one_command_installs_it_and_one_removes_it(start_cluster: StartCluster, helm: Helm) -> None:
    """Takes seconds: two runs of Helm that wait for pods. Both list first what they would do, and change nothing."""
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha"), node("beta")])
    install = ("install", "--chart", CHART, "--set", "nats.persistence.enabled=false")
    checked = await asyncio.to_thread(run, cluster, helm, *install)
    assert "warning  source of metrics: no Prometheus" in checked
    assert f"helm upgrade --install equipoise {CHART} --namespace {NAMESPACE}" in checked
    async with cluster.api() as api:
        assert NAMESPACE not in await names(api, "/api/v1/namespaces")
        installed = await asyncio.to_thread(run, cluster, helm, *install, "--yes")
        assert "It has no permission to evict" in installed
        deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        assert "equipoise-collector" in await names(api, deployments)
        accounts = await names(api, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")
        assert "equipoise-prepare" not in accounts
        assert "equipoise-prepare" in {each["metadata"]["name"] for each in prepare_documents(helm)}
        ledger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "equipoise-ledger"}}
        await api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", ledger)
        listed = await asyncio.to_thread(run, cluster, helm, "uninstall")
        assert "the Helm release equipoise in namespace equipoise-system" in listed
        assert f"ConfigMap {NAMESPACE}/equipoise-ledger" in listed
        assert "equipoise-collector" in await names(api, deployments)
        removed = await asyncio.to_thread(run, cluster, helm, "uninstall", "--yes")
        assert f"deleted ConfigMap {NAMESPACE}/equipoise-ledger" in removed
        assert f"remains: namespace {NAMESPACE}" in removed
        assert not await names(api, deployments)
        left = await names(api, f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        assert left == {"kube-root-ca.crt"}
        roles = await names(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles")
        assert not {each for each in roles if each.startswith("equipoise")}
