"""The upstream descheduler for a cluster, driven by Prometheus metrics: its policy and its process."""

import asyncio
import base64
import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.testbed.api import ApiError
from equipoise.testbed.binaries.build import DESCHEDULER, build_module, default_cache
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.cluster import Cluster

SECRET = {"namespace": "kube-system", "name": "prometheus-token"}


def build_descheduler() -> Path:
    """Path of the program. The first build takes some minutes on two cores."""
    with Progress() as progress:
        return build_module(DESCHEDULER, cache=default_cache(), progress=progress) / "descheduler"


def prometheus_policy(
    *,
    prometheus_url: str,
    query: str,
    low: float,
    high: float,
    deviation: bool,
    evictions_per_node: int,
    excluded_namespaces: Sequence[str],
) -> dict[str, Any]:
    """LowNodeUtilization by one Prometheus query, whose samples are loads (0..1) labelled `instance` with the node.

    `low` and `high` are percent, or points below and above the mean with `deviation`. A node loses at most
    `evictions_per_node` pods per cycle. Source: sigs.k8s.io/descheduler v0.36, docs of LowNodeUtilization.
    """
    arguments = {
        "useDeviationThresholds": deviation,
        "thresholds": {"MetricResource": low},
        "targetThresholds": {"MetricResource": high},
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": query}},
        "evictableNamespaces": {"exclude": list(excluded_namespaces)},
        "evictionLimits": {"node": evictions_per_node},
    }
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [
            {
                "source": "Prometheus",
                "prometheus": {"url": prometheus_url, "authToken": {"secretReference": SECRET}},
            }
        ],
        "profiles": [
            {
                "name": "level",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                    {"name": "LowNodeUtilization", "args": arguments},
                ],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
    }


def after_new_nodes_policy(
    *, prometheus_url: str, cores: Mapping[str, float], window: float, excluded_namespaces: Sequence[str]
) -> dict[str, Any]:
    """LowNodeUtilization and RemoveDuplicates: what spreads pods to nodes that are new.

    By requests, with the thresholds of its documentation (20 and 50 %). With a URL, by the usage that Prometheus has
    measured in the last `window` seconds, 8 points around the mean. `cores`: those of each node.
    """
    if prometheus_url:
        policy = prometheus_policy(
            prometheus_url=prometheus_url, query=usage_query(cores, window), low=8, high=8, deviation=True,
            evictions_per_node=5, excluded_namespaces=excluded_namespaces,
        )  # fmt: skip
    else:
        low, high = (dict.fromkeys(("cpu", "memory", "pods"), percent) for percent in (20, 50))
        arguments = {
            "thresholds": low, "targetThresholds": high, "evictableNamespaces": {"exclude": list(excluded_namespaces)}
        }  # fmt: skip
        policy = {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [
                {
                    "name": "level",
                    "pluginConfig": [
                        {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                        {"name": "LowNodeUtilization", "args": arguments},
                    ],
                    "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
                }
            ],
        }
    [profile] = policy["profiles"]
    duplicates = {"namespaces": {"exclude": list(excluded_namespaces)}}
    profile["pluginConfig"].append({"name": "RemoveDuplicates", "args": duplicates})
    profile["plugins"]["balance"]["enabled"].append("RemoveDuplicates")
    return policy


def usage_query(cores: Mapping[str, float], window: float) -> str:
    """The load of each node over the last `window` seconds. It is at most 1: a higher sample ends a cycle of the
    descheduler with an error."""
    nodes: dict[float, list[str]] = defaultdict(list)
    for name, number in cores.items():
        nodes[number].append(name)
    parts = (
        f'rate(node_cpu_usage_seconds_total{{instance=~"{"|".join(names)}"}}[{window:g}s]) / {number:g}'
        for number, names in nodes.items()
    )
    return f"clamp_max({' or '.join(parts)}, 1)"


async def start_descheduler(cluster: Cluster, program: Path, policy: dict[str, Any], *, interval: float) -> int:
    """Start a descheduler with this policy and this interval in seconds; returns its pid. It ends with the cluster.

    Its log is `descheduler.log` in the directory of the cluster.
    """
    # The descheduler requires a token for Prometheus even when Prometheus does not.
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": SECRET}
    token = {"data": {"prometheusAuthToken": base64.b64encode(b"unused").decode()}}
    async with cluster.api() as api:
        try:
            await api.request("POST", f"/api/v1/namespaces/{SECRET['namespace']}/secrets", secret | token)
        except ApiError as error:
            if error.status != 409:
                raise
    return await asyncio.to_thread(_start, cluster, program, policy, interval)


def _start(cluster: Cluster, program: Path, policy: dict[str, Any], interval: float) -> int:
    directory = cluster.directory / "descheduler"
    directory.mkdir(exist_ok=True)
    shutil.copy(cluster.ca_file, directory / "ca.crt")
    (directory / "policy.json").write_text(json.dumps(policy, indent=1))
    argv: list[str | Path] = [
        program,
        f"--policy-config-file={directory / 'policy.json'}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--descheduling-interval={round(interval * 1000)}ms",
        "--secure-port=0",
        # As for the other components: the default of 5 per second would slow down short cycles.
        "--client-connection-qps=500",
        "--client-connection-burst=1000",
        "-v=3",
    ]
    return cluster.guard.start(argv, log=cluster.log("descheduler"), directory=directory)
