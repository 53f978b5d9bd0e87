"""The hint of a new pod as a JSON patch: what the admission policy `equipoise.contracts.hints.policy` does in the API
server, for API servers that have no such policies.

The same pod and the same hints give the same patched pod. The conditions that need only the pod are evaluated by the
API server in both cases (`POD_CONDITIONS`).
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.metadata import ApiValue, OwnerReference, Time
from equipoise.contracts.kubernetes.owners import TEMPLATE_HASHES
from equipoise.contracts.messages.placement import WeightedNodes

Result = Literal["hinted", "no_controller", "no_hints_in_namespace", "expired", "no_hint_of_workload", "unlisted_node"]
"""Whether a pod gets a hint, or why not."""

_CRON_JOB = re.compile(r".+-[0-9]{8}")
"""The Job of a CronJob ends in its scheduled time, in minutes since 1970: eight digits until 2160."""

_PREFERRED = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"


class _ManagedFields(ApiValue, frozen=True, kw_only=True):
    time: Time | None = None


class _Metadata(ApiValue, frozen=True, kw_only=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    managed_fields: list[_ManagedFields] | None = None


class _NodeAffinity(ApiValue, frozen=True, kw_only=True):
    preferred: list[msgspec.Raw] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(ApiValue, frozen=True, kw_only=True):
    node_affinity: _NodeAffinity | None = None


class _Spec(ApiValue, frozen=True, kw_only=True):
    affinity: _Affinity | None = None


class NewPod(ApiValue, frozen=True, kw_only=True):
    """The fields of a pod that decide about its hint."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a JSON patch (RFC 6902)."""

    op: Literal["add"] = "add"
    path: str
    value: Any


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What is added to a pod."""

    result: Result
    patch: tuple[Operation, ...] = ()
    """Empty unless `hinted`."""


def admit(pod: NewPod, stored: HintsObject | None) -> Admission:
    """What is added to a pod. `stored`: the hints of its namespace."""
    owner = next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)
    if owner is None:
        return Admission(result="no_controller")
    if stored is None or not stored.keys:
        return Admission(result="no_hints_in_namespace")
    if not _is_fresh(pod, stored):
        return Admission(result="expired")
    key = workload_key(owner, pod.metadata.labels or {})
    if key not in stored.keys:
        return Admission(result="no_hint_of_workload")
    hint = stored.hint(key)
    if hint is None:
        return Admission(result="unlisted_node")
    terms = [_term(nodes, "In") for nodes in hint.prefer]
    terms += [_term(hint.avoid, "NotIn")] if hint.avoid else []
    annotation = f"{key}@{stored.metadata.resource_version}"
    return Admission(result="hinted", patch=(*_missing(pod), *_added(terms), _annotated(annotation)))


def workload_key(owner: OwnerReference, labels: dict[str, str]) -> str:
    """Kind and name of the workload of a pod, from its controller: `Deployment.web`."""
    kind, name = owner.kind, owner.name
    for label, (_, workload) in TEMPLATE_HASHES.items():
        if label in labels:
            suffix = f"-{labels[label]}"
            if kind == "ReplicaSet" and name.endswith(suffix):
                return f"{workload}.{name.removesuffix(suffix)}"
            break
    if kind == "Job" and _CRON_JOB.fullmatch(name):
        return f"CronJob.{name[:-9]}"
    return f"{kind}.{name}"


def _is_fresh(pod: NewPod, stored: HintsObject) -> bool:
    """Whether the hints are valid at the time of the API server, which is in the managedFields of the pod.

    A client may send more of these times: all must be before the hints expire.
    """
    times = [entry.time for entry in pod.metadata.managed_fields or ()]
    until = stored.until
    return bool(times) and until is not None and all(time is not None and time < until for time in times)


def _term(nodes: WeightedNodes, operator: str) -> dict[str, Any]:
    """The term as node affinity has it."""
    expression = {"key": HOSTNAME, "operator": operator, "values": nodes.hostnames}
    return {"weight": nodes.weight, "preference": {"matchExpressions": [expression]}}


def _missing(pod: NewPod) -> list[Operation]:
    """The parents of the terms and of the annotation that the pod lacks. The terms of the user remain, before ours."""
    affinity = pod.spec.affinity
    nodes = affinity.node_affinity if affinity else None
    parents: list[tuple[bool, str, Any]] = [
        (affinity is None, "/spec/affinity", {}),
        (nodes is None, "/spec/affinity/nodeAffinity", {}),
        (nodes is None or nodes.preferred is None, _PREFERRED, []),
        (pod.metadata.annotations is None, "/metadata/annotations", {}),
    ]
    return [Operation(path=path, value=value) for is_missing, path, value in parents if is_missing]


def _added(terms: Sequence[dict[str, Any]]) -> list[Operation]:
    return [Operation(path=f"{_PREFERRED}/-", value=term) for term in terms]


def _annotated(value: str) -> Operation:
    return Operation(path=f"/metadata/annotations/{HINTED.replace('/', '~1')}", value=value)
