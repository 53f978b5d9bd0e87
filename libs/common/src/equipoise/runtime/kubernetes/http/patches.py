"""Bodies of patches: changes of a part of an object, and the preconditions of the change."""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ExplainedCondition, ObjectReference
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim


def annotation_patch(
    annotations: Mapping[str, str | None], *, uid: str, version: str, expected: Mapping[str, str] | None
) -> tuple[str, Any]:
    """The content type and the body of a patch. Only a JSON patch can require the value of an annotation."""
    required = {name: text for name, text in (("uid", uid), ("resourceVersion", version)) if text}
    if not expected:
        return "application/merge-patch+json", {"metadata": {"annotations": dict(annotations), **required}}
    tests = {f"/metadata/{name}": text for name, text in required.items()}
    tests |= {_annotation_path(key): text for key, text in expected.items()}
    changes = [
        {"op": "remove", "path": _annotation_path(key)}
        if text is None
        else {"op": "add", "path": _annotation_path(key), "value": text}
        for key, text in annotations.items()
    ]
    return "application/json-patch+json", [
        *({"op": "test", "path": path, "value": text} for path, text in tests.items()),
        *changes,
    ]


def taint_patch(node: Node, taint: Taint, *, present: bool) -> list[dict[str, Any]]:
    """The body of a JSON patch that adds a taint to a node as it was read, replaces its value, or removes it.

    The API server merges no lists of taints: a merge patch would write all others again, with the fields that the
    model does not have. Its own preconditions, UID and resourceVersion, make an index in the list safe.
    """
    path, taints = "/spec/taints", node.spec.taints
    same = [index for index, other in enumerate(taints) if (other.key, other.effect) == (taint.key, taint.effect)]
    change: dict[str, Any]
    if not present:
        change = {"op": "remove", "path": f"{path}/{same[0]}"} if same else {}
    elif same:
        change = {"op": "replace", "path": f"{path}/{same[0]}", "value": taint}
    else:
        change = {"op": "add", "path": f"{path}/-", "value": taint}
        if not taints:
            change = {"op": "add", "path": path, "value": [taint]}
    required = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
    conditions = [{"op": "replace", "path": f"/metadata/{name}", "value": text} for name, text in required.items()]
    return [*conditions, change] if change else conditions


def pod_status_patch(*, uid: str, condition: ExplainedCondition | None, nominated_node: str | None) -> dict[str, Any]:
    """The body of a strategic merge patch, which leaves conditions of other types as they are."""
    status: dict[str, Any] = {}
    if condition is not None:
        # The API server refuses fractions of a second.
        moment = condition.last_transition_time
        condition = msgspec.structs.replace(condition, last_transition_time=moment and moment.replace(microsecond=0))
        status["conditions"] = [condition]
    if nominated_node is not None:
        status["nominatedNodeName"] = nominated_node or None
    return {"metadata": {"uid": uid}, "status": status}


def reservation_patch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> dict[str, Any]:
    """The body of a merge patch, as kube-scheduler writes it: the annotation marks a binding that may be undone."""
    metadata = claim.metadata
    reference = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )
    return {
        "metadata": {
            "uid": volume.metadata.uid,
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"claimRef": reference},
    }


def _annotation_path(key: str) -> str:
    return "/metadata/annotations/" + key.replace("/", "~1")  # a key contains no ~
