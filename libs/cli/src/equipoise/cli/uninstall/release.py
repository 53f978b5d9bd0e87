"""The Helm release that an installation belongs to."""

import shlex
import shutil

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.helm import run_helm
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, Kube, metadata_of

COMPONENT = "app.kubernetes.io/component"
RELEASE = "meta.helm.sh/release-name"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The Deployments of an installation."""

    deployments: list[str]
    release: str
    """Its name; empty for an installation without Helm."""


async def installed(kube: Kube, namespace: str) -> Installed:
    """Raises KubeError."""
    deployments = await kube.list(metadata_of(DEPLOYMENTS), namespace)
    found = [each for each in deployments if each.metadata.labels.get(COMPONENT) in ALL_SERVICES]
    releases = {each.metadata.annotations.get(RELEASE, "") for each in found}
    return Installed(
        deployments=[each.metadata.name for each in found], release=releases.pop() if len(releases) == 1 else ""
    )


def helm_command(release: str, cluster: Kubernetes) -> list[str]:
    """`helm uninstall` in the same cluster."""
    context = ["--kube-context", cluster.context] if cluster.context else []
    return ["helm", "uninstall", release, "--namespace", cluster.namespace, "--wait", *context]


async def remove_release(found: Installed, cluster: Kubernetes) -> None:
    """Raises CommandFailed with the command to run, if helm is not installed, or if there is no release."""
    if not found.release:
        names = " ".join(found.deployments)
        raise CommandFailed(
            f"Equipoise was not installed by Helm, and runs in namespace {cluster.namespace} ({names}): delete it as "
            "it was installed (`kubectl delete -k OVERLAY`), then run this command again"
        )
    command = helm_command(found.release, cluster)
    if shutil.which("helm") is None:
        raise CommandFailed(f"there is no program helm here: run `{shlex.join(command)}`, then this command again")
    await run_helm(command, cluster.kubeconfig)
