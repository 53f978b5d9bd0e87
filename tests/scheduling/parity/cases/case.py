"""A cluster and pods written by hand, and short forms of their manifests."""

from collections.abc import Sequence
from typing import Any

import msgspec
from scheduling.parity.common_objects import Document
from scheduling.parity.generator import Change

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: Sequence[Document]
    new: Sequence[Document]
    """Placed one after the other."""

    pods: Sequence[Document] = ()
    """They have a node."""

    objects: Sequence[Document] = ()
    prepared: Sequence[Change] = ()
    """Once the pods run."""

    configuration: Document = {}


def a_node(
    name: str,
    *,
    labels: Document | None = None,
    taints: Sequence[Document] = (),
    images: Sequence[Document] = (),
    cordoned: bool = False,
    **size: str,
) -> Document:
    """`size`: underscores are dashes."""
    given = {name.replace("_", "-"): value for name, value in size.items()}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "20Gi"} | given
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {"allocatable": amounts, "capacity": amounts, "images": list(images)},
    }


def a_pod(
    name: str,
    *requests: Document,
    node: str = "",
    namespace: str = "alpha",
    labels: Document | None = None,
    priority: str = "",
    metadata: Document | None = None,
    **spec: Any,
) -> Document:
    """`requests`: of one container each. `priority`: name of a class."""
    containers = [
        {"name": f"container-{number}", "image": "registry.example/none:1", "resources": {"requests": each}}
        for number, each in enumerate(requests or ({},))
    ]
    placed = {"nodeName": node} if node else {}
    classed = {"priorityClassName": priority} if priority else {}
    labels = {"app": "web"} if labels is None else labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **(metadata or {})},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **placed, **classed, **spec},
    }


def spread(key: str, selector: Document | None, *, hard: bool = True, skew: int = 1, **fields: Any) -> Document:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector,
        **fields,
    }


def term(key: str = ZONE, selector: Document | None = WEB, **fields: Any) -> Document:
    return {"topologyKey": key, "labelSelector": selector, **fields}


def status_of(pod: Document, status: Document) -> Change:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
    return Change(method="PATCH", path=path, body={"status": status})


def zones(*names: str, cpu: str = "4") -> list[Document]:
    """A node per zone: node-0 in the first of them, and so on."""
    return [a_node(f"node-{number}", labels={ZONE: name}, cpu=cpu) for number, name in enumerate(names)]
