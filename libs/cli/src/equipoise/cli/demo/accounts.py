"""The ServiceAccounts of services in a demo, with their permissions and admission policies, from the manifests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import Manifest

NAMESPACE = "equipoise-system"

_MANIFESTS = Path(__file__).parents[6] / "k8s"
_KINDS = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


def account_documents(files: Sequence[str], option: str, manifests: Path = _MANIFESTS) -> list[Manifest]:
    """The accounts of these files without their Deployments, because the services of a demo run as processes.

    `files`: relative to the folder `manifests`. `option`: the option of the demo that needs them. Raises InvalidInput
    outside of the repository.
    """
    return [manifest for file in files for manifest in _read(manifests / file, option) if manifest["kind"] in _KINDS]


def _read(file: Path, option: str) -> list[Any]:
    try:
        return [manifest for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8")) if manifest]
    except FileNotFoundError:
        raise InvalidInput(
            f"{option} needs the manifests of the repository, and {file} does not exist: "
            f"clone the repository and run `make demo ARGS={option}` in it"
        ) from None


async def account_variables(cluster: Cluster, service: str) -> dict[str, str]:
    """The environment variables with which a service uses its own ServiceAccount."""
    token = await cluster.service_account_token(NAMESPACE, f"equipoise-{service}")
    return {
        **cluster.in_cluster_environment,
        "EQUIPOISE_KUBERNETES__SERVICE_ACCOUNT": str(token.parent),
        "EQUIPOISE_KUBERNETES__KUBECONFIG": "",
    }
