"""The account of the reclaimer, its permissions and its admission policies, from k8s/colocation and k8s/base."""

from pathlib import Path
from typing import Any

import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.testbed.objects import Manifest

NAMESPACE = "equipoise-system"
NAME = "equipoise-reclaimer"

_MANIFESTS = Path(__file__).parents[7] / "k8s"
_KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_LEASE_POLICY = "equipoise-lease-fence"


def account_documents(manifests: Path = _MANIFESTS) -> list[Manifest]:
    """The manifests of the reclaimer without its Deployment, because it runs as a process.

    Raises InvalidInput outside of the repository.
    """
    account = [
        manifest for manifest in _read(manifests / "colocation" / "reclaimer.yaml") if manifest["kind"] in _KINDS
    ]
    leases = [
        manifest
        for manifest in _read(manifests / "base" / "fence.yaml")
        if manifest["metadata"]["name"] == _LEASE_POLICY
    ]
    return [*account, *leases, *_read(manifests / "colocation" / "reclaimer-fence.yaml")]


def _read(file: Path) -> list[Any]:
    try:
        return [manifest for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8")) if manifest]
    except FileNotFoundError:
        raise InvalidInput(
            f"--colocation needs the manifests of the repository, and {file} does not exist: "
            "clone the repository and run `make demo ARGS=--colocation` in it"
        ) from None
