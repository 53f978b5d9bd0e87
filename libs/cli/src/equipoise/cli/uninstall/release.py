"""The Helm release that an installation belongs to."""

import shlex
import shutil

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.helm import run_helm
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, Kube, metadata_of

PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
NAME = "app.kubernetes.io/name"
RELEASE = "meta.helm.sh/release-name"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The Deployments of an installation."""

    deployments: list[str]
    release: str
    """The name of the Helm release; empty for an installation without Helm."""

    others: list[str] = []
    """The other Deployments of the release, for example if the chart of Equipoise is part of another chart."""


async def installed(kube: Kube, namespace: str) -> Installed:
    """The installation in a namespace. Raises KubeError."""
    deployments = await kube.list(metadata_of(DEPLOYMENTS), namespace)
    ours = [item for item in deployments if _is_ours(item) and item.metadata.labels.get(COMPONENT) in ALL_SERVICES]
    releases = {_release(deployment) for deployment in ours}
    release = releases.pop() if len(releases) == 1 else ""
    others = [item.metadata.name for item in deployments if release == _release(item) and not _is_ours(item)]
    return Installed(
        deployments=[deployment.metadata.name for deployment in ours],
        release=release,
        others=others if release else [],
    )


def _release(deployment: Object) -> str:
    return deployment.metadata.annotations.get(RELEASE, "")


def _is_ours(deployment: Object) -> bool:
    """Whether a Deployment is of Equipoise. Other programs may use the same names of components.

    Installations without Helm may lack the label part-of.
    """
    labels = deployment.metadata.labels
    return labels.get(PART_OF) == "equipoise" or (not _release(deployment) and labels.get(NAME) == "equipoise")


def helm_command(release: str, cluster: Kubernetes) -> list[str]:
    """The command `helm uninstall` for the same cluster."""
    context = ["--kube-context", cluster.context] if cluster.context else []
    return ["helm", "uninstall", release, "--namespace", cluster.namespace, "--wait", *context]


async def remove_release(installation: Installed, cluster: Kubernetes) -> None:
    """Run `helm uninstall`.

    Raises CommandFailed with what to do if helm is not installed, if there is no release, or if it has other
    Deployments.
    """
    release = installation.release
    if not release:
        names = " ".join(installation.deployments)
        raise CommandFailed(
            f"Equipoise was not installed by Helm, and runs in namespace {cluster.namespace} ({names}): delete it as "
            "it was installed (`kubectl delete -k OVERLAY`), then run this command again"
        )
    if installation.others:
        raise CommandFailed(
            f"the Helm release {release} in namespace {cluster.namespace} has Deployments that are not of Equipoise "
            f"({', '.join(installation.others)}): remove Equipoise from its chart, then run this command again"
        )
    command = helm_command(release, cluster)
    if shutil.which("helm") is None:
        raise CommandFailed(f"there is no program helm here: run `{shlex.join(command)}`, then this command again")
    await run_helm(command, cluster.kubeconfig)
