"""Removes Equipoise from a cluster: first the release, since running services would write their objects again."""

from collections.abc import Iterator
from contextlib import aclosing

import click
import msgspec

from equipoise.cli.annotations.clear import OURS, AnnotatedObject, by_kind, clear, find_annotated, tainted
from equipoise.cli.annotations.clear_reclaimed import ClearedNodes, clear_nodes
from equipoise.cli.annotations.clearing import clear_each
from equipoise.cli.cluster_now.open_moves import open_moves
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.terminal import count, listed
from equipoise.cli.uninstall.release import Installed, installed, remove_release
from equipoise.cli.uninstall.written_amounts import FoundAmounts, find_amounts
from equipoise.cli.uninstall.written_objects import FoundObjects, WrittenObject, find_written
from equipoise.contracts.eviction.detached import is_marked_detached
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.crane import KEYS as CRANE
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import PODS, Kube, metadata_of
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.installation import read_other_installations
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

MAX_NAMED = 5


class ClusterContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster has of Equipoise."""

    installation: Installed
    annotated: list[AnnotatedObject]
    amounts: FoundAmounts
    objects: FoundObjects


async def run_uninstall(cluster: Kubernetes, *, crane: bool, rate: float, confirmed: bool) -> None:
    """Run the command. Raises KubeError, and CommandFailed if something could not be removed."""
    configure_logging(Logging(level="error"), "uninstall")
    clock = SystemClock()
    async with connect_kube(cluster, "uninstall", clock) as kube:
        await require_only_one(kube, cluster.namespace, clock)
        contents = await find_all(kube, cluster.namespace, crane=crane)
        if not confirmed:
            for line in preview(contents, cluster.namespace):
                click.echo(line)
            return
        if contents.installation.deployments:
            await require_no_moves(kube, cluster.namespace)
            await remove_release(contents.installation, cluster)
            contents = await find_all(kube, cluster.namespace, crane=crane)
        failed = await remove_all(kube, clock, contents, rate=rate)
        for line in await remaining(kube, cluster.namespace):
            click.echo(line)
    if failed:
        raise CommandFailed(f"not removed: {'; '.join(failed)}")


async def require_only_one(kube: Kube, namespace: str, clock: Clock) -> None:
    """Raises CommandFailed if another namespace has a working installation, whose annotations and amounts must stay."""
    others = await read_other_installations(kube, namespace, kube.server_time(clock.now()))
    if others:
        names = listed([installation.namespace for installation in others], MAX_NAMED)
        raise CommandFailed(
            f"another installation works in namespace {names}, and annotations and hints are of the whole cluster: "
            f"give its namespace with -n. To keep it, remove the one in {namespace} with `helm uninstall` only"
        )


async def require_no_moves(kube: Kube, namespace: str) -> None:
    """Raises CommandFailed while binders move pods without a gap: nobody would end those that they have detached."""
    moves = await open_moves(kube, namespace)
    if moves:
        pods = listed([move.intent.pod_name for move in moves.values()], MAX_NAMED)
        raise CommandFailed(
            f"nothing is removed: moves without a gap have not ended yet ({pods}). Run `equipoise pause`, "
            "and this command again in some minutes. `equipoise doctor detached` names moves that do not end"
        )


async def find_all(kube: Kube, namespace: str, *, crane: bool) -> ClusterContents:
    """What the cluster has of Equipoise. Raises KubeError."""
    return ClusterContents(
        installation=await installed(kube, namespace),
        annotated=await find_annotated(kube, (*OURS, *CRANE) if crane else OURS),
        amounts=await find_amounts(kube),
        objects=await find_written(kube, namespace),
    )


def preview(contents: ClusterContents, namespace: str) -> Iterator[str]:
    """Lines that state what would be removed."""
    lines: list[str] = []
    if contents.installation.deployments:
        release = contents.installation.release
        text = f"the Helm release {release}" if release else "an installation without Helm, to be deleted first"
        if contents.installation.others:
            text += f", which also has {listed(contents.installation.others, MAX_NAMED)} and is therefore not removed,"
        lines.append(f"{text} in namespace {namespace}: {listed(contents.installation.deployments, MAX_NAMED)}")
    if contents.annotated:
        kinds = ", ".join(count(number, kind) for kind, number in by_kind(contents.annotated).items())
        what = "annotations and taints" if tainted(contents.annotated) else "annotations"
        lines.append(f"{what} of {kinds}")
    if contents.amounts.ours:
        lines.append(f"reclaimed resources in the status of {count(len(contents.amounts.ours), 'node')}")
    lines += map(str, contents.objects.written)
    if not lines:
        yield "nothing of Equipoise is in this cluster"
        return
    yield "to be removed with --yes:"
    yield from (f"  {line}" for line in lines)


async def remove_all(kube: Kube, clock: Clock, contents: ClusterContents, *, rate: float) -> list[str]:
    """Remove everything outside of the release. Returns what could not be removed, with the reasons.

    Raises KubeError when the API server does not respond.
    """
    failed: list[str] = []
    if contents.annotated:
        cleared = await clear(kube, clock, contents.annotated, rate=rate)
        click.echo(f"annotations removed from {count(sum(cleared.removed.values()), 'object')}")
        failed += (f"annotations of {name}: {error}" for name, error in cleared.failed.items())
    if contents.amounts.ours:
        nodes = await clear_nodes(kube, clock, contents.amounts.ours, rate=rate)
        click.echo(f"reclaimed resources removed from {count(nodes.removed, 'node')}")
        failed += _of_nodes(nodes)

    async def delete(written: WrittenObject) -> None:
        await kube.delete(written.resource, written.name, written.namespace, uid=written.uid)
        click.echo(f"deleted {written}")

    uncleared = await clear_each(kube, contents.objects.written, delete, clock, rate=rate, noun="objects")
    return failed + [f"{name}: {error}" for name, error in uncleared.failed.items()]


def _of_nodes(nodes: ClearedNodes) -> Iterator[str]:
    for name, error in nodes.failed.items():
        yield f"reclaimed resources of {name}: {error}"
    for name, pods in nodes.in_use.items():
        yield f"reclaimed resources of {name}, which {listed(pods, MAX_NAMED)} request: run it again without these pods"


async def remaining(kube: Kube, namespace: str) -> list[str]:
    """Lines that state what Equipoise does not remove. Raises KubeError."""
    secrets = (await find_written(kube, namespace)).others
    hinted, detached = 0, list[str]()
    async with aclosing(kube.pages(metadata_of(PODS))) as pages:
        async for page in pages:
            hinted += sum(HINTED in pod.metadata.annotations for pod in page)
            detached += (
                f"{each.metadata.namespace}/{each.metadata.name}" for each in page if is_marked_detached(each.metadata)
            )
    others = (await find_amounts(kube)).others
    lines = [f"remains: namespace {namespace}: kubectl delete namespace {namespace}"]
    if secrets:
        lines.append(f"remains: in it, Secrets that were not created by Equipoise: {listed(secrets, MAX_NAMED)}")
    if others:
        lines.append(
            f"remains: reclaimed resources that another program has written, in the status of "
            f"{listed(others, MAX_NAMED)}. If it is no longer in use: equipoise annotations clear --reclaimed"
        )
    if detached:
        lines.append(
            f"remains: {count(len(detached), 'pod')} without owner, from moves without a gap: "
            f"{listed(detached, MAX_NAMED)}. When their workload is ready without them: kubectl delete pod"
        )
    if hinted:
        lines.append(
            f"remains: the annotation {HINTED} and the preferred node affinity of {count(hinted, 'pod')}, until they "
            "are created again"
        )
    return lines
