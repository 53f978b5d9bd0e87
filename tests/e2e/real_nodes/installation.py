"""The installed chart on real nodes, for the programs of this folder."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from deployment.base import NAMESPACE, ROOT
from deployment.helm import CHART

from equipoise.testbed.api import Api
from equipoise.testbed.real_nodes.addresses import node_name
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare

RELEASE = "equipoise"
HELM_TIMEOUT = "8m"
NODES = 2

UNLIMITED = {"max": "unlimited"}
LIMITS = {
    "evictionsPerWorkload": UNLIMITED,
    "evictionsPerNamespace": UNLIMITED,
    "evictionsPerCluster": {"max": "unlimited", "maxCount": "unlimited"},
    "unusualRate": UNLIMITED,
    "migratingPerNode": UNLIMITED,
    "migratingPerWorkload": UNLIMITED,
    "unavailablePerWorkload": UNLIMITED,
    "lateReplacements": UNLIMITED,
}
"""Settings of the binder, which would otherwise allow an eviction in ten minutes."""


def values(prometheus_url: str) -> dict[str, Any]:
    """Values of the chart: everything is moved without a gap, without limits, after two minutes of measurement."""
    windows = {
        "2m": ("120s", "15s"),
        "5m": ("5m", "15s"),
        "15m": ("15m", "30s"),
        "1h": ("1h", "2m"),
        "1d": ("1d", "30m"),
    }
    return {
        "mode": "evict",
        "surge": "always",
        "config": {
            "collector": {"prometheus": {"url": prometheus_url, "profile": "kubelet"}},
            "load": {
                "windows": [
                    {"name": name, "length": length, "refreshPeriod": period}
                    for name, (length, period) in windows.items()
                ],
                "coverage": {"nodeSettlingPeriod": "10s"},
            },
            "thresholds": {"high": {"cpu": 20}, "low": {"cpu": 14}},  # other work takes from what the pods can use
            "protection": {"replicasSettlingPeriod": "20s"},
            "descheduler": {
                "interval": "10s",
                "consecutiveAbnormalities": 2,
                "warmUp": "10s",
                "replacementTimeout": "60s",
                "cooldown": {"eviction": "1s", "refusal": "10s", "sameNodeReturn": "1s", "noLoadReduction": "1s"},
            },
            "binder": {"limits": LIMITS},
        },
        "hints": {"enabled": True},
        "nats": {"persistence": {"enabled": False}},  # the nodes have no StorageClass
        "livePage": {"enabled": True},
    }


@dataclass(kw_only=True)
class Installation:
    """The chart on the nodes of a cluster, with an API client as administrator."""

    real: RealCluster
    api: Api

    async def helm(self, action: str, values: Mapping[str, Any]) -> None:
        """Installs or upgrades, and waits until everything is ready. Raises ClusterError."""
        file = self.real.directory / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        await self.real.run(
            self.real.helm, action, RELEASE, CHART, "--namespace", NAMESPACE, "--create-namespace",
            "--values", file, "--wait", "--timeout", HELM_TIMEOUT,
        )  # fmt: skip

    async def equipoise(self, *arguments: str) -> str:
        """The output of a command of Equipoise. Raises ClusterError."""
        return await self.real.run(sys.executable, "-c", "from equipoise.cli.main import main; main()", *arguments)

    async def scale(self, deployment: str, replicas: int) -> None:
        """Scales a Deployment of the chart, and waits until it has as many ready pods, and no others."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}"
        await self.api.patch(path, {"spec": {"replicas": replicas}})
        await self.api.wait(
            path,
            lambda found: (
                found["status"].get("observedGeneration") == found["metadata"]["generation"]
                and found["status"].get("replicas", 0) == found["status"].get("readyReplicas", 0) == replicas
            ),
            timeout=180,
            what=f"{deployment} has {replicas} ready pods",
        )


@asynccontextmanager
async def installed(real: RealCluster) -> AsyncIterator[Installation]:
    """The nodes with the installed chart, while the block runs."""
    async with real, real.cluster.api() as api:
        installation = Installation(real=real, api=api)
        note(f"{NODES} nodes are ready")
        await installation.helm("install", values(real.prometheus_url))
        note("the chart is installed")
        yield installation


def new_cluster(kubernetes: str = "") -> RealCluster:
    """A cluster whose image is built from this clone. Moves this thread into a network namespace: see RealCluster.

    `kubernetes`: the minor version, such as 1.35. Default: the newest.
    """
    return RealCluster(prepare(ROOT, kubernetes=kubernetes), NODES)


def other(node: str) -> str:
    return next(name for name in map(node_name, range(1, NODES + 1)) if name != node)


def note(text: str) -> None:
    """Progress, for people."""
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}", file=sys.stderr, flush=True)


def machine_load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 1)


def print_result(result: Mapping[str, Any]) -> None:
    """The last line of a program."""
    print(json.dumps(result), flush=True)
