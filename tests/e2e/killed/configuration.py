"""The configuration of the services and the objects of the cluster.

Settings that decide how long a failure lasts have their defaults: Leases of shards and annotators (15, 30 and 8 s),
freshness of samples (120 and 180 s), validity of hints (300 s), write thresholds, write rates and network timeouts.
Settings that delay a change of usage without any failure are compressed, so that a change is visible within a minute:
the window is 10 s instead of 5 minutes, queried every 2 s instead of 15 and scraped every second; an
annotation may change every 15 s instead of once per minute; hints are computed every 2 s instead of 15.
"""

from collections.abc import Mapping
from typing import Any

from deployment.base import ROOT
from deployment.kustomize import read_kustomization

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.testbed import objects
from equipoise.testbed.objects import constant_usage_annotations

Document = dict[str, Any]

NAMESPACE = "shop"
ARRIVING = "launch"
"""Namespace of the Deployment `ARRIVING`, whose pods kube-scheduler places. They use nearly nothing."""

OWN = "equipoise-system"
NODES = tuple(f"node-{number}" for number in range(10))
"""As many as one explanation contains."""
CORES = 10.0
MEBIBYTES = 256.0
SHARDS = 2
WINDOW = "5m"
REFRESH_SECONDS = 2.0

HOT, IDLE = 7.0, 1.0
"""Cores used by the pod of a node."""

WRITE_THRESHOLD = 0.05
"""Share of a node's base (`annotator.nodes.minChange`): a smaller change is not written."""

WORKLOAD_WRITE_THRESHOLD = 0.20
"""Share of the annotated value (`annotator.workloads.minChange`)."""


def workload_on(node: str) -> str:
    """Name of the Deployment whose only pod runs on the node."""
    return f"on-{node}"


def usage(cores: float) -> dict[str, str]:
    """Annotations with which a fake kubelet reports this usage."""
    return constant_usage_annotations(1_000 * cores, MEBIBYTES)


def manifests() -> list[Document]:
    """One Deployment with one pod per node; the first half of the nodes is hot. The policy of placement hints, and a
    workload that gets them."""
    documents = [objects.namespace(name) for name in (NAMESPACE, ARRIVING, OWN)]
    documents += read_kustomization(ROOT / "k8s" / "hints")
    template = objects.pod_template(ARRIVING, annotations=constant_usage_annotations(10.0, 1.0))
    documents.append(objects.deployment(ARRIVING, template, namespace=ARRIVING))
    for number, node in enumerate(NODES):
        template = objects.pod_template(
            workload_on(node),
            annotations=usage(HOT if number < len(NODES) // 2 else IDLE),
            spec={"nodeName": node},
        )
        documents.append(objects.deployment(workload_on(node), template, namespace=NAMESPACE))
    return documents


def document(
    service: ServiceName, *, kubeconfig: str, nats: str, prometheus: str, addresses: Mapping[str, str]
) -> Document:
    """The configuration of one process; `addresses`: those on which it listens."""
    sections: dict[str, Document] = {
        "collector": {"shards": SHARDS, "prometheus": {"url": prometheus}, "profile": {"enabled": False}},
        "annotator": {
            "nodes": {"minChange": 100 * WRITE_THRESHOLD, "minInterval": "15s", "refreshPeriod": "30m"},
            "workloads": {"minChange": 100 * WORKLOAD_WRITE_THRESHOLD, "minInterval": "15s", "refreshPeriod": "6h"},
            "hints": {"minInterval": f"{REFRESH_SECONDS:g}s"},
        },
        "scorer": {"hints": {"interval": f"{REFRESH_SECONDS:g}s"}},
    }
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "logging": {"format": "json"},
        "placement": {"hints": True},
        "nats": {"url": nats},
        "kubernetes": {"kubeconfig": kubeconfig, "namespace": OWN},
        "load": {
            "windows": [{"name": WINDOW, "length": "10s", "refreshPeriod": f"{REFRESH_SECONDS:g}s"}],
            "coverage": {"nodeSettlingPeriod": "1s"},
        },
        service: {**sections[service], **addresses},
    }
