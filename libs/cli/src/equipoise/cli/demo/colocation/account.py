"""The reclaimer's account, its rights and its admission policies, as k8s/colocation and k8s/base have them."""

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
    """The reclaimer's manifests without its Deployment: it runs as a process. Raises InvalidInput outside the
    repository."""
    account = [each for each in _read(manifests / "colocation" / "reclaimer.yaml") if each["kind"] in _KINDS]
    leases = [each for each in _read(manifests / "base" / "fence.yaml") if each["metadata"]["name"] == _LEASE_POLICY]
    return [*account, *leases, *_read(manifests / "colocation" / "reclaimer-fence.yaml")]


def _read(file: Path) -> list[Any]:
    try:
        return [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each]
    except FileNotFoundError:
        raise InvalidInput(
            f"--colocation needs the manifests of the repository, and {file} does not exist: "
            "clone the repository and run `make demo ARGS=--colocation` in it"
        ) from None
