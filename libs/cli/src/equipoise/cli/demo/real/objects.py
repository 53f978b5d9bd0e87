"""What the demo installs on real nodes: pods that compute, and the values of the chart."""

from collections.abc import Sequence
from typing import Any

from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.addresses import HUB

NAMESPACE = "default"
WORKLOAD = "burn"
PODS = 5
SHARE = 0.075
"""The CPU limit of one pod as a share of a node; all five together have 37.5 %."""

HIGH, LOW = 18, 12
"""Thresholds in percent. All nodes are one machine, and other work on it takes from what the pods can use."""


def burning_pods(cores: int) -> Manifest:
    """A Deployment whose pods use all that they may, and request a tenth of it. `cores`: those of a node."""
    milli = round(1000 * cores * SHARE)
    labels = {"app": WORKLOAD}
    container = {
        "name": "main",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "while :; do :; done"],
        "resources": {
            "requests": {"cpu": f"{milli // 10}m", "memory": "16Mi"},
            "limits": {"cpu": f"{milli}m", "memory": "32Mi"},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    }


def values(mode: str, prometheus_url: str) -> dict[str, Any]:
    """Values of the chart: thresholds that this machine can reach, and shorter intervals; the rest is the default."""
    return {
        "mode": mode,
        "config": {
            "collector": {"prometheus": {"url": prometheus_url, "profile": "kubelet"}},
            "thresholds": {"high": {"cpu": HIGH}, "low": {"cpu": LOW}},
            "protection": {"replicasSettlingPeriod": "30s"},
            "descheduler": {"interval": "20s", "consecutiveAbnormalities": 2, "warmUp": "20s"},
        },
        "hints": {"enabled": True},
        "nats": {"persistence": {"enabled": False}},  # the nodes have no StorageClass
        "networkPolicy": {"schedulerCidrs": [f"{HUB}/32"]},
    }


def pods_of(items: Sequence[Manifest]) -> dict[str, str]:
    """The node of each running pod of the workload."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in items
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }
