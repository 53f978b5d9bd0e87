"""Karpenter for a cluster, with its kwok provider: its CustomResourceDefinitions, NodePool and process.

Source: sigs.k8s.io/karpenter v1.15, kwok/README.md, pkg/apis/crds and designs/balanced-consolidation.md.
"""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import KARPENTER, build_module, default_cache
from equipoise.testbed.binaries.toolchain import Progress, find_go, go_environment
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.processes.loopback import responds

Document = dict[str, Any]
Policy = Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]
"""A `consolidationPolicy` of a NodePool."""

MODULE = "sigs.k8s.io/karpenter"
NODE_POOL = "default"
NODE_CLASS = "default"
ZONE = "zone-a"
DISRUPTED = "karpenter.sh/disrupted"
"""The key of the taint of nodes that Karpenter is about to remove."""

INITIALIZED = "karpenter.sh/initialized"
"""The label of nodes that Karpenter has made and that have become ready."""

RESERVED_MILLI = 100
RESERVED_MIB = 10
"""What the kwok provider reserves of each node: kwok/cloudprovider/helpers.go."""

START_SECONDS = 60.0


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """The only instance type of a cluster, on demand in one zone."""

    name: str
    cpu_milli: int
    """Allocatable millicores of a node."""

    memory_mib: int
    """Allocatable memory of a node."""

    price: float
    """Price of a node per hour."""

    def document(self) -> Document:
        """An entry of the file of instance types."""
        requirements = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": ZONE}
        offering = {
            "Price": self.price,
            "Available": True,
            "Requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()],
        }
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "offerings": [offering],
            "resources": {
                "cpu": f"{self.cpu_milli + RESERVED_MILLI}m",
                "memory": f"{self.memory_mib + RESERVED_MIB}Mi",
                "pods": "110",
                "ephemeral-storage": "100Gi",
            },
        }


class Karpenter(msgspec.Struct, frozen=True, kw_only=True):
    """What has been built and fetched."""

    program: Path
    definitions: tuple[Document, ...]
    """Its CustomResourceDefinitions."""


def build_karpenter() -> Karpenter:
    """Karpenter and the definitions of the same version. The first build takes some minutes on two cores."""
    with Progress() as progress:
        program = build_module(KARPENTER, cache=default_cache(), progress=progress) / "karpenter"
        go = find_go(default_cache(), progress, minimum=KARPENTER.minimum_go)
    # The version and the hash are those of go.mod and go.sum.
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        cwd=KARPENTER.source, env={**os.environ, **go_environment()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{MODULE} cannot be fetched: {done.stdout}{done.stderr}")
    module = Path(json.loads(done.stdout)["Dir"])
    files = [file for folder in ("pkg", "kwok") for file in sorted((module / folder / "apis/crds").glob("*.yaml"))]
    definitions = (document for file in files for document in yaml.safe_load_all(file.read_text()) if document)
    return Karpenter(program=program, definitions=tuple(definitions))


def node_pool(policy: Policy | None) -> Document:
    """A NodePool of linux nodes on demand, with the default budget: a tenth of the nodes at once.

    None: it removes no node, not even an empty one. Otherwise a node may be removed as soon as its pods permit it,
    which is Karpenter's own default (`consolidateAfter: 0s`).
    """
    requirements = {
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "karpenter.sh/capacity-type": "on-demand"
    }  # fmt: skip
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": NODE_POOL},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS},
                    "requirements": [
                        {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
                    ],
                    "expireAfter": "Never",
                }
            },
            "disruption": {
                "consolidationPolicy": policy or "WhenEmpty",
                "consolidateAfter": "Never" if policy is None else "0s",
            },
        },
    }


async def start_karpenter(
    cluster: Cluster, api: Api, karpenter: Karpenter, instance_type: InstanceType, policy: Policy | None = None
) -> int:
    """Start it with the NodePool of a policy; returns its pid. It ends with the cluster.

    Its log is `karpenter.log` in the directory of the cluster.
    """
    await api.apply(karpenter.definitions)
    served = "/apis/karpenter.sh/v1/nodepools"
    await api.wait(served, lambda response: True, what="the API server serves NodePools")
    await api.wait("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", lambda response: True)
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": NODE_CLASS}}
    await api.apply([node_class, node_pool(policy)])
    file = cluster.directory / "instance-types.json"
    file.write_text(json.dumps([instance_type.document()], indent=1))
    health, log = cluster.free_port(), cluster.log("karpenter")
    argv: list[str | Path] = [
        karpenter.program,
        f"--instance-types-file-path={file}",
        f"--health-probe-port={health}",
        f"--metrics-port={cluster.free_port()}",
        "--disable-leader-election",
        # As for the other components.
        "--kube-client-qps=500",
        "--kube-client-burst=1000",
    ]
    environment = {"KUBECONFIG": str(cluster.kubeconfig)}
    pid = cluster.guard.start(argv, log=log, directory=cluster.directory, environment=environment)
    async with asyncio.timeout(START_SECONDS):
        while not await asyncio.to_thread(responds, f"http://127.0.0.1:{health}/readyz"):
            if (code := cluster.guard.exit_code(pid)) is not None:
                raise RuntimeError(f"Karpenter ended with code {code}: {log.read_text(errors='replace')[-2000:]}")
            await asyncio.sleep(0.2)
    return pid
