"""What the services of these tests are told, and the cluster that they look at.

Real are all Leases and seats (15, 30 and 8 s), every life of a sample (120 and 180 s), the dead-bands, the rate of
writes and all network timeouts: what decides how long a lost replica is missed, and how long a value would be believed
that nobody renews. Compressed is what only says how fast a change of usage shows when all is well, else no value could
show one within a minute: a window is 10 s long instead of 5 minutes, measured anew every 2 s instead of 15, scraped
each second, and an annotation may change every 15 s instead of once a minute.
"""

from collections.abc import Mapping
from typing import Any

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.testbed import objects
from equipoise.testbed.objects import constant_usage_annotations

Document = dict[str, Any]

NAMESPACE = "shop"
OWN = "equipoise-system"
NODES = tuple(f"node-{number}" for number in range(10))
"""No more than one explanation tells of."""
CORES = 10.0
MEBIBYTES = 256.0
SHARDS = 2
WINDOW = "5m"
REFRESH_SECONDS = 2.0

HOT, IDLE = 7.0, 1.0
"""Cores that a node's pod uses."""

BAND = 0.05
"""Share of a node's base (`annotator.nodes.change`): a smaller change need not be written."""

WORKLOAD_BAND = 0.20
"""Share of what stands there (`annotator.workloads.change`)."""


def workload_on(node: str) -> str:
    """Name of the Deployment whose only pod runs there."""
    return f"on-{node}"


def usage(cores: float) -> dict[str, str]:
    """Annotations by which a fake kubelet reports it, from its next scrape on."""
    return constant_usage_annotations(1_000 * cores, MEBIBYTES)


def manifests() -> list[Document]:
    """One Deployment for each node, with one pod there; the first half of the nodes is hot."""
    made = [objects.namespace(NAMESPACE), objects.namespace(OWN)]
    for number, node in enumerate(NODES):
        template = objects.pod_template(
            workload_on(node),
            annotations=usage(HOT if number < len(NODES) // 2 else IDLE),
            spec={"nodeName": node},
        )
        made.append(objects.deployment(workload_on(node), template, namespace=NAMESPACE))
    return made


def document(
    service: ServiceName, *, kubeconfig: str, nats: str, prometheus: str, addresses: Mapping[str, str]
) -> Document:
    """The configuration of one process; `addresses` are its own to listen on."""
    sections: dict[str, Document] = {
        "collector": {"shards": SHARDS, "prometheus": {"url": prometheus}, "profile": {"enabled": False}},
        "annotator": {
            "nodes": {"minChange": 100 * BAND, "minInterval": "15s", "refreshPeriod": "30m"},
            "workloads": {"minChange": 100 * WORKLOAD_BAND, "minInterval": "15s", "refreshPeriod": "6h"},
        },
        "scorer": {},
    }
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "logging": {"format": "json"},
        "nats": {"url": nats},
        "kubernetes": {"kubeconfig": kubeconfig, "namespace": OWN},
        "load": {
            "windows": [{"name": WINDOW, "length": "10s", "refreshPeriod": f"{REFRESH_SECONDS:g}s"}],
            "coverage": {"nodeSettlingPeriod": "1s"},
        },
        service: {**sections[service], **addresses},
    }
