"""The workload of a pod: its controller, or the controller of its controller.

A ReplicaSet usually belongs to a Deployment or an Argo Rollout, and a Job may belong to a CronJob. Every other
controller (StatefulSet, DaemonSet, Kruise's CloneSet and StatefulSet, ReplicationController, custom ones) is the
workload itself, and so are a ReplicaSet and a Job without an owner. Static pods are owned by their Node and have no
workload. The API server accepts any text in an owner reference; text that cannot be the name of an object is ignored.
"""

import re
from collections.abc import Callable, Mapping

from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload

OWNED_KINDS: frozenset[tuple[str, str]] = frozenset({("apps", "ReplicaSet"), ("batch", "Job")})
"""(group, kind) of controllers that may have a controller of their own."""

TEMPLATE_HASHES: Mapping[str, tuple[str, str]] = {
    "rollouts-pod-template-hash": ("argoproj.io", "Rollout"),
    "pod-template-hash": ("apps", "Deployment"),
}
"""The pod label whose value is the suffix of the ReplicaSet's name, and the (group, kind) that sets it."""


_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""The name of an object or of a group: a DNS subdomain of at most 253 characters."""


def workload_of(pod: Pod, owner_of: Callable[[Workload], OwnerReference | None]) -> Workload | None:
    """The workload of a pod; None for a bare or a static pod.

    `owner_of` returns the controller of a ReplicaSet or a Job (None: it has none). Errors for an owner that it cannot
    read are passed on, so that each caller decides how to handle them.
    """
    direct = controller_of(pod)
    if direct is None or (direct.group, direct.kind) not in OWNED_KINDS:
        return direct
    owner = owner_of(direct)
    return direct if owner is None else _named(owner, direct.namespace) or direct


def workload_lookup(workload_of: Callable[[Pod], Workload | None]) -> Callable[[Pod], Workload | None]:
    """A faster `workload_of` for many pods. Pods of one controller share a list of owners, which is resolved once."""
    resolved: dict[tuple[str, int], Workload | None] = {}
    lists: list[list[OwnerReference]] = []  # kept alive, so that no other list gets the id of one of them

    def workload(pod: Pod) -> Workload | None:
        meta = pod.metadata
        key = meta.namespace, id(meta.owner_references)
        try:
            return resolved[key]
        except KeyError:
            lists.append(meta.owner_references)
            result = resolved[key] = workload_of(pod)
            return result

    return workload


def workload_from_pod(pod: Pod) -> Workload | None:
    """The workload of a pod, derived only from the pod; None for a bare or a static pod.

    A ReplicaSet's name without its template hash is the name of its Deployment (or Rollout). A Job is not resolved:
    only the Job object names its CronJob.
    """
    direct = controller_of(pod)
    if direct is None or (direct.group, direct.kind) != ("apps", "ReplicaSet"):
        return direct
    for label, (group, kind) in TEMPLATE_HASHES.items():
        suffix = "-" + pod.metadata.labels.get(label, "")
        name = direct.name.removesuffix(suffix)
        if len(suffix) > 1 and name and name != direct.name:
            return Workload(kind=kind, group=group, namespace=direct.namespace, name=name)
    return direct


def controller_of(pod: Pod) -> Workload | None:
    """The pod's direct controller: a ReplicaSet, a StatefulSet… None for a bare or a static pod."""
    controller = pod.metadata.controller
    return None if controller is None else _named(controller, pod.metadata.namespace)


def _named(owner: OwnerReference, namespace: str) -> Workload | None:
    group, _, _ = owner.api_version.rpartition("/")
    if (group, owner.kind) == ("", "Node") or not _can_exist(group, owner):
        return None
    return Workload(kind=owner.kind, group=group, namespace=namespace, name=owner.name)


def _can_exist(group: str, owner: OwnerReference) -> bool:
    return (
        _KIND.fullmatch(owner.kind) is not None
        and (not group or _DNS_NAME.fullmatch(group) is not None)
        and _DNS_NAME.fullmatch(owner.name) is not None
    )
