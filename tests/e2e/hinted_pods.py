"""Pods as their controllers create them: those that get a hint, and those that must stay as they are."""

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_LONGEST = "x" * 246
"""Name of a Deployment: that of its ReplicaSet has 253 characters, the most there can be."""

HINTED_KEYS: Mapping[str, Document] = {
    "Deployment.web": {"owner": "ReplicaSet/web-7d4b9c", "labels": {"pod-template-hash": "7d4b9c"}},
    f"Deployment.{_LONGEST}": {"owner": f"ReplicaSet/{_LONGEST}-7d4b9c", "labels": {"pod-template-hash": "7d4b9c"}},
    "Rollout.canary": {"owner": "ReplicaSet/canary-5f6", "labels": {"rollouts-pod-template-hash": "5f6"}},
    "ReplicaSet.bare": {"owner": "ReplicaSet/bare"},
    "StatefulSet.db": {"owner": "StatefulSet/db"},
    "Job.import": {"owner": "Job/import"},
    "CronJob.backup": {"owner": "Job/backup-29123456"},
    "CloneSet.cloned": {"owner": "CloneSet/cloned"},
    "StatefulSet.earlier": {"owner": "StatefulSet/earlier"},
}
"""By the key of their workload."""

_TERM = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}
OWN_TERM = {"weight": 7, "preference": _TERM}
_PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [OWN_TERM]}
_SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
AFFINITIES: Mapping[str, Document | None] = {
    "none": None,
    "empty": {},
    "required": {"nodeAffinity": _REQUIRED},
    "preferred": {"nodeAffinity": _PREFERRED},
    "both": {"nodeAffinity": _REQUIRED | _PREFERRED},
    "no preferred term": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "of pods": _SPREAD,
}
"""That a user may have written for the pods of Deployment.web."""

_WEB = HINTED_KEYS["Deployment.web"]
UNTOUCHED: Mapping[str, Document] = {
    "bare pod": {},
    "owner that is no controller": {"owner": "StatefulSet/db", "controller": False},
    "DaemonSet": {"owner": "DaemonSet/agent"},
    "static pod": {"owner": "Node/alpha"},
    "placed already": _WEB | {"spec": {"nodeName": "alpha"}},
    "switched off": _WEB | {"labels": _WEB["labels"] | {"equipoise.dev/hints": "off"}},
    "another scheduler": _WEB | {"spec": {"schedulerName": "other"}},
    "scheduling gate": _WEB | {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}},
    "hinted already": _WEB | {"annotations": {"equipoise.dev/hint": "Deployment.web@1"}},
    "annotations without room for another": _WEB | {"annotations": {"example.com/a": "x" * (256 * 1_024 - 13)}},
    "annotations without room in bytes": _WEB | {"annotations": {"example.com/a": "ä" * 131_000}},
    "workload without hints": {"owner": "StatefulSet/unknown"},
    "names of nodes that are not listed": {"owner": "StatefulSet/broken"},
    "names of nodes that are not listed, of an earlier version": {"owner": "StatefulSet/earlier-broken"},
    "workload with a hint that is not listed": {"owner": "StatefulSet/unlisted"},
}
"""Pods in a namespace with fresh hints for every key above, for DaemonSet.agent and for Node.alpha."""

EARLIER = ("StatefulSet.earlier", "StatefulSet.earlier-broken", "StatefulSet.db")
"""The workloads with a hint as earlier versions wrote it. The last one also has an unusable hint of this version: the
other one counts."""

GROUPS = {"StatefulSet": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "Node": "v1"}


def pod_of(
    namespace: str,
    *,
    name: str = "new",
    owner: str = "",
    controller: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    affinity: Document | None = None,
    written_at: str = "",
) -> Document:
    """A pod; `owner` is kind and name, `written_at` the time in an entry of managedFields that the client sends."""
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owner:
        kind, _, name = owner.partition("/")
        version = GROUPS.get(kind, "apps.kruise.io/v1alpha1")
        reference = {"apiVersion": version, "kind": kind, "name": name, "uid": "0-0", "controller": controller}
        metadata["ownerReferences"] = [reference]
    if written_at:
        fields = {"fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:message": {}}}, "subresource": "status"}
        entry = {"manager": "client", "operation": "Update", "apiVersion": "v1", "time": written_at}
        metadata["managedFields"] = [entry | fields]
    containers = [{"name": "main", "image": "fake"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **({} if affinity is None else {"affinity": affinity}), **(spec or {})},
    }


def preferred_terms(pod: Document) -> list[Document]:
    """Of its node affinity."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms: list[Document] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return terms
