"""The nodes on which the pods of a run begin: read from the API server, and bound without kube-scheduler."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from equipoise.testbed.api import Api

Document = dict[str, Any]
Placement = dict[str, list[str]]
"""The nodes of each workload's pods, by `namespace/workload`."""


def _workload(pod: Document) -> str:
    """`namespace/deployment`, or "" for a DaemonSet's pod."""
    metadata = pod["metadata"]
    of_daemon_set = any(owner["kind"] == "DaemonSet" for owner in metadata["ownerReferences"])
    return "" if of_daemon_set else f"{metadata['namespace']}/{metadata['labels']['app']}"


def placement(pods: Sequence[Document]) -> Placement:
    """The nodes of these pods, without those of DaemonSets."""
    nodes_of: Placement = defaultdict(list)
    for pod in pods:
        if workload := _workload(pod):
            nodes_of[workload].append(pod["spec"]["nodeName"])
    return {workload: sorted(nodes) for workload, nodes in sorted(nodes_of.items())}


async def all_pods(api: Api, expected: int, *, running: bool = False) -> list[Document]:
    """All pods, as soon as this many exist, or run."""

    def complete(response: Any) -> bool:
        pods = response["items"]
        return sum(1 for pod in pods if not running or pod["status"].get("phase") == "Running") >= expected

    what = f"{expected} pods {'run' if running else 'exist'}"
    response = await api.wait("/api/v1/pods", complete, timeout=600, what=what)
    pods: list[Document] = response["items"]
    return pods


async def bind(api: Api, pods: Sequence[Document], start: Placement) -> None:
    """Binds the pods of each workload to its nodes in `start`."""
    remaining = {workload: list(nodes) for workload, nodes in start.items()}
    for pod in pods:
        # Pods of a DaemonSet select their node themselves.
        if (workload := _workload(pod)) in remaining:
            metadata = pod["metadata"]
            await api.request(
                "POST",
                f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": metadata["name"]},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": remaining[workload].pop()},
                },
            )
