"""A pod that is created in a dry run, to see what the API server makes of it."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference, WholeObject


def probe_pod(namespace: str, key: str, *, name: str, labels: Mapping[str, str] | None = None) -> WholeObject:
    """A pod with the owner and the hash label of a pod of this workload. Pod Security `restricted` allows it."""
    kind, _, workload = key.partition(".")
    owner_kind, suffix, hashes = {
        "Deployment": ("ReplicaSet", "-0", {"pod-template-hash": "0"}),
        "Rollout": ("ReplicaSet", "-0", {"rollouts-pod-template-hash": "0"}),
        "CronJob": ("Job", "-00000000", {}),
    }.get(kind, (kind, "", {}))
    owner_name = workload + suffix
    reference = OwnerReference(api_version="apps/v1", kind=owner_kind, name=owner_name, uid=name, controller=True)
    container = {
        "name": "probe",
        "image": "probe",
        "resources": {"requests": _RESOURCES, "limits": _RESOURCES},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "automountServiceAccountToken": False,
    }
    metadata = ObjectMeta(
        name=name, namespace=namespace, labels={**hashes, **(labels or {})}, owner_references=[reference]
    )
    return WholeObject(metadata=metadata, spec=spec)


_RESOURCES = {"cpu": "1m", "memory": "1Mi"}
