"""The Helm release that an installation belongs to."""

import shlex
import shutil

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.helm import run_helm
from equipoise.cli.uninstall.written_objects import PART_OF
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, Kube, metadata_of

COMPONENT = "app.kubernetes.io/component"
NAME = "app.kubernetes.io/name"
RELEASE = "meta.helm.sh/release-name"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The Deployments of an installation."""

    deployments: list[str]
    release: str
    """Its name; empty for an installation without Helm."""

    others: list[str] = []
    """The Deployments of this release that are not of Equipoise, for example of a chart that contains its chart."""


async def installed(kube: Kube, namespace: str) -> Installed:
    """Raises KubeError."""
    deployments = await kube.list(metadata_of(DEPLOYMENTS), namespace)
    found = [each for each in deployments if _is_ours(each) and each.metadata.labels.get(COMPONENT) in ALL_SERVICES]
    releases = {_release(each) for each in found}
    release = releases.pop() if len(releases) == 1 else ""
    others = [each.metadata.name for each in deployments if release == _release(each) and not _is_ours(each)]
    return Installed(
        deployments=[each.metadata.name for each in found], release=release, others=others if release else []
    )


def _release(deployment: Object) -> str:
    return deployment.metadata.annotations.get(RELEASE, "")


def _is_ours(deployment: Object) -> bool:
    """Whether it is of Equipoise: other programs have components of the same names. Only the chart sets part-of."""
    labels = deployment.metadata.labels
    return labels.get(PART_OF) == "equipoise" or (not _release(deployment) and labels.get(NAME) == "equipoise")


def helm_command(release: str, cluster: Kubernetes) -> list[str]:
    """`helm uninstall` in the same cluster."""
    context = ["--kube-context", cluster.context] if cluster.context else []
    return ["helm", "uninstall", release, "--namespace", cluster.namespace, "--wait", *context]


async def remove_release(found: Installed, cluster: Kubernetes) -> None:
    """Raises CommandFailed with what to do, if helm is not installed, there is no release, or it has more."""
    if not found.release:
        names = " ".join(found.deployments)
        raise CommandFailed(
            f"Equipoise was not installed by Helm, and runs in namespace {cluster.namespace} ({names}): delete it as "
            "it was installed (`kubectl delete -k OVERLAY`), then run this command again"
        )
    if found.others:
        raise CommandFailed(
            f"the Helm release {found.release} in namespace {cluster.namespace} has Deployments that are not of "
            f"Equipoise ({', '.join(found.others)}): remove Equipoise from its chart, then run this command again"
        )
    command = helm_command(found.release, cluster)
    if shutil.which("helm") is None:
        raise CommandFailed(f"there is no program helm here: run `{shlex.join(command)}`, then this command again")
    await run_helm(command, cluster.kubeconfig)
