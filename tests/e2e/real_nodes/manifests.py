"""The pods of the tests on real nodes: a server, its clients, and pods that compute."""

from pathlib import Path
from typing import Any

from e2e.real_nodes import http_client, http_server

from equipoise.contracts.eviction.opt_out import OPT_OUT
from equipoise.testbed import objects
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.images import product_image

SHOP = "shop"
WEB = "web"
CALM_SECONDS = 10
"""How long the server goes on serving when its pod terminates: each node needs a moment to learn of it."""

BURN_MILLI = 100
"""CPU that a pod of the server uses beside it, so that moving it relieves a node."""

BALLAST_MILLI = 600
HOSTNAME = "kubernetes.io/hostname"


def python_container(program: Any, *arguments: str) -> dict[str, Any]:
    """A container that runs a module with the Python of the image of Equipoise."""
    return {
        "name": "main",
        "image": product_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", Path(program.__file__).read_text(), *arguments],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
    }


def burner(name: str, milli: int) -> dict[str, Any]:
    """A container that uses all the CPU that it may."""
    return {
        "name": name,
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "trap exit TERM; while :; do :; done"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": f"{milli}m", "memory": "32Mi"}},
    }


def server() -> list[Manifest]:
    """One replica behind a Service, with a budget that permits no eviction. Two of its pods need two nodes."""
    labels = {"app": WEB}
    container = python_container(http_server) | {
        "readinessProbe": {"httpGet": {"path": "/", "port": http_server.PORT}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": CALM_SECONDS}}},
    }
    apart = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [container, burner("load", BURN_MILLI)],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": WEB, "namespace": SHOP},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": http_server.PORT}]},
    }
    return [
        objects.deployment(WEB, template, namespace=SHOP),
        objects.pod_disruption_budget(WEB, WEB, max_unavailable=0, namespace=SHOP),
        service,
    ]


def client(node: str, address: str) -> Manifest:
    """A pod on this node that asks the server through the cluster IP of its Service."""
    spec = {"nodeName": node, "containers": [python_container(http_client, address, "80")]}
    return objects.pod(client_name(node), {"metadata": {"labels": {"app": "client"}}, "spec": spec}, namespace=SHOP)


def client_name(node: str) -> str:
    return f"client-{node}"


def ballast(node: str, replicas: int = 1) -> Manifest:
    """Pods that compute on this node, and are not moved."""
    spec = {
        "nodeSelector": {HOSTNAME: node},
        "terminationGracePeriodSeconds": 1,
        "containers": [burner("main", BALLAST_MILLI)],
    }
    template = {"metadata": {"labels": {"app": "ballast"}, "annotations": {OPT_OUT: "false"}}, "spec": spec}
    return objects.deployment("ballast", template, replicas=replicas, namespace=SHOP)
