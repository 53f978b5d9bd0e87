"""What a cluster with real nodes contains from its start: the Service of DNS and the account of Prometheus."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.testbed.objects import Manifest, namespace
from equipoise.testbed.real_nodes.addresses import DNS_SERVICE, HUB, node_address, node_name

MONITORING = "monitoring"
PROMETHEUS = "prometheus"
METRICS_ROLE = "kubelet-metrics"
"""The ClusterRole that permits reading the metrics of nodes."""

_RBAC = "rbac.authorization.k8s.io"

METRICS_PATHS = ("/metrics", "/metrics/cadvisor", "/metrics/resource")


def first_objects() -> list[Manifest]:
    dns = {"name": "kube-dns", "namespace": "kube-system"}
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": dns, "spec": {"clusterIP": DNS_SERVICE, "ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": dns | {"labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [HUB]}],
        },
        namespace(MONITORING),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PROMETHEUS, "namespace": MONITORING}},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": METRICS_ROLE},
            "rules": [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": METRICS_ROLE},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": METRICS_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": PROMETHEUS, "namespace": MONITORING}],
        },
    ]


def kubelet_scrapes(nodes: int, ca: Path, token: Path) -> Sequence[dict[str, Any]]:
    """The jobs of Prometheus for all endpoints of the kubelets, with the label `node`. Each scrape reads the token."""
    return [
        {
            "job_name": f"kubelet{path.replace('/', '-')}",
            "scheme": "https",
            "metrics_path": path,
            "tls_config": {"ca_file": str(ca)},
            "authorization": {"credentials_file": str(token)},
            "static_configs": [
                {
                    "targets": [f"{node_address(number)}:10250"],
                    "labels": {"node": node_name(number), "metrics_path": path},
                }
                for number in range(1, nodes + 1)
            ],
        }
        for path in METRICS_PATHS
    ]
