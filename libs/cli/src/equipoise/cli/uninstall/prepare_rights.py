"""The objects that `equipoise-prepare` needs, which Helm leaves where it has created them and the Job was refused."""

from collections.abc import AsyncIterator
from typing import Any

from equipoise.cli.uninstall.release import COMPONENT
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.kubernetes.client import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Kube,
    Resource,
    find,
    metadata_of,
)

PREPARE = "prepare"
"""The component of these objects, by their label."""

ACCOUNT, FENCE = "equipoise-prepare", "equipoise-prepare-fence"

CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", kind="ClusterRole", model=Object,
    namespaced=False,
)  # fmt: skip
ADMISSION_POLICY_BINDINGS = Resource(
    group="admissionregistration.k8s.io", version="v1", plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding", model=Object, namespaced=False,
)  # fmt: skip

RIGHTS: tuple[tuple[Resource[Any], str], ...] = (
    (CLUSTER_ROLE_BINDINGS, ACCOUNT),
    (ROLE_BINDINGS, ACCOUNT),
    (SERVICE_ACCOUNTS, ACCOUNT),
    (CLUSTER_ROLES, ACCOUNT),
    (ROLES, ACCOUNT),
    (ADMISSION_POLICY_BINDINGS, FENCE),
    (ADMISSION_POLICIES, FENCE),
)
"""The objects by name, in the order in which they are deleted: the fence remains as long as the rights do."""


async def find_rights(kube: Kube, namespace: str) -> AsyncIterator[tuple[Resource[Any], Object]]:
    """The `RIGHTS` that exist and are of Equipoise. Raises KubeError."""
    for resource, name in RIGHTS:
        existing = await find(kube, metadata_of(resource), name, namespace if resource.namespaced else "")
        if existing is not None and existing.metadata.labels.get(COMPONENT) == PREPARE:
            yield resource, existing
