"""The proposed requests as objects for the VerticalPodAutoscaler, and as patches.

A VerticalPodAutoscaler recommends nothing below `minAllowed`: it then stays the one that writes requests, and follows
the usage above the proposal. In the mode `Off` it writes nothing, and shows its recommendation in its status.
Source: kubernetes/autoscaler, vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1/types.go (`UpdateMode`,
`ContainerResourcePolicy`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.resource_requests.proposals import RequestsProposal

UpdateMode = Literal["Off", "InPlaceOrRecreate"]
"""`updatePolicy.updateMode` of a VerticalPodAutoscaler."""

_API_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicationController": "v1",
    "CronJob": "batch/v1",
}
"""The API versions of the kinds whose template of pods can be changed."""


def without_manifest(proposed: Iterable[RequestsProposal]) -> dict[str, list[RequestsProposal]]:
    """The changed workloads for which there is no manifest, by the reason."""
    reasons: dict[str, list[RequestsProposal]] = {}
    for each in proposed:
        if each.changed and (reason := _missing(each)):
            reasons.setdefault(reason, []).append(each)
    return reasons


def vertical_pod_autoscalers(proposed: Iterable[RequestsProposal], mode: UpdateMode) -> list[dict[str, Any]]:
    """A VerticalPodAutoscaler for each changed workload with one container.

    It has the name of the workload, and of its kind if several workloads of a namespace have the same name.
    """
    targets = _with_manifest(proposed)
    names = Counter((each.namespace, each.name) for each in targets)
    return [
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {
                "name": each.name if names[each.namespace, each.name] == 1 else f"{each.name}-{each.kind.lower()}",
                "namespace": each.namespace,
            },
            "spec": {
                "targetRef": {"apiVersion": _API_VERSIONS[each.kind], "kind": each.kind, "name": each.name},
                "updatePolicy": {"updateMode": mode},
                "resourcePolicy": {
                    "containerPolicies": [
                        {
                            "containerName": each.containers[0],
                            "controlledValues": "RequestsOnly",
                            "minAllowed": _quantities(each.proposed),
                        }
                    ]
                },
            },
        }
        for each in targets
    ]


def patches(proposed: Iterable[RequestsProposal]) -> list[dict[str, Any]]:
    """A strategic merge patch for each changed workload with one container, as for Kustomize."""
    return [
        {
            "apiVersion": _API_VERSIONS[each.kind],
            "kind": each.kind,
            "metadata": {"name": each.name, "namespace": each.namespace},
            "spec": _template(each.kind, [{"name": each.containers[0], "resources": _requests(each.proposed)}]),
        }
        for each in _with_manifest(proposed)
    ]


def _with_manifest(proposed: Iterable[RequestsProposal]) -> list[RequestsProposal]:
    return [each for each in proposed if each.changed and not _missing(each)]


def _missing(proposal: RequestsProposal) -> str:
    if proposal.kind not in _API_VERSIONS:
        return f"the template of a {proposal.kind} cannot be changed, or its API version is not known"
    if not proposal.containers:
        return "the names of the containers are not in the trace"
    return "" if len(proposal.containers) == 1 else "several containers: the usage of each is not in the trace"


def _template(kind: str, containers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    template = {"template": {"spec": {"containers": [*containers]}}}
    return {"jobTemplate": {"spec": template}} if kind == "CronJob" else template


def _requests(requests: ResourceRequests) -> dict[str, Any]:
    return {"requests": _quantities(requests)}


def _quantities(requests: ResourceRequests) -> dict[str, str]:
    """The quantities of those that are requested."""
    amounts = {"cpu": f"{requests.cpu_milli}m", "memory": f"{requests.memory_mib}Mi"}
    present = {"cpu": requests.cpu_milli, "memory": requests.memory_mib}
    return {resource: amounts[resource] for resource in amounts if present[resource]}
