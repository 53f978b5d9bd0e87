"""A pod that is created in a dry run, to see what the API server makes of it."""

from collections.abc import Mapping

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference, WholeObject


def probe_pod(namespace: str, key: str, *, name: str, labels: Mapping[str, str] | None = None) -> WholeObject:
    """A pod as the workload with this key would get it. Pod Security `restricted` allows it."""
    kind, _, workload = key.partition(".")
    owner, hashes = {
        "Deployment": (f"ReplicaSet {workload}-0", {"pod-template-hash": "0"}),
        "Rollout": (f"ReplicaSet {workload}-0", {"rollouts-pod-template-hash": "0"}),
        "CronJob": (f"Job {workload}-00000000", {}),
    }.get(kind, (f"{kind} {workload}", {}))
    owner_kind, _, owner_name = owner.partition(" ")
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
