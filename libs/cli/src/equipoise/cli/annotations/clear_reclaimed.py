"""Removes the amounts of reclaimed resources from the status of nodes, where no bound pod requests them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import partial

import msgspec
from rich.console import Console

from equipoise.cli.annotations.clearing import clear_each
from equipoise.cli.cluster_access.leases import held_leases, held_text
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import Output
from equipoise.cli.terminal import count, listed, print_result
from equipoise.contracts.colocation.bands import OFFERED_NAMES, requests_reclaimed
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_requests
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import NODES, PODS, Forbidden, Kube, Resource
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

_MAX_PODS = 3
"""The largest number of pods that a line names."""


class OfferingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose status contains amounts of reclaimed resources."""

    name: str
    uid: str
    keys: tuple[str, ...]

    @property
    def resource(self) -> Resource[Node]:
        return NODES

    @property
    def namespace(self) -> str:
        return ""

    def __str__(self) -> str:
        return self.name


class ClearedNodes(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool
    found: int
    """The number of nodes whose status contains amounts."""

    in_use: dict[str, list[str]] = {}
    """The pods that request the amounts, by node. Without the amounts, a restarted kubelet would reject these pods."""

    removed: int = 0
    deleted: int = 0
    """The number of nodes that were deleted in the meantime."""

    failed: dict[str, str] = {}
    """The error of each node whose status could not be written."""

    active_reclaimer: str = ""
    """The Lease of a running reclaimer, which writes the amounts again in the mode enforce; empty if none runs."""


async def find_offering(kube: Kube) -> list[OfferingNode]:
    """The nodes whose status contains amounts of reclaimed resources. Raises KubeError."""
    offering: list[OfferingNode] = []
    async with aclosing(kube.pages(NODES)) as pages:
        async for page in pages:
            for node in page:
                status = node.status
                offered = status.capacity.keys() | status.allocatable.keys()
                if keys := tuple(name for name in OFFERED_NAMES if name in offered):
                    offering.append(OfferingNode(name=node.metadata.name, uid=node.metadata.uid, keys=keys))
    return offering


async def find_users(kube: Kube) -> dict[str, list[str]]:
    """The pods that request reclaimed resources, by node. Raises KubeError."""
    users = defaultdict[str, list[str]](list)
    async with aclosing(kube.pages(PODS)) as pages:
        async for page in pages:
            for pod in filter(_uses, page):
                users[pod.spec.node_name].append(_name(pod))
    return {node: sorted(pods) for node, pods in sorted(users.items())}


async def clear_nodes(kube: Kube, clock: Clock, nodes: Sequence[OfferingNode], *, rate: float) -> ClearedNodes:
    """Remove the amounts from `rate` nodes per second, except from nodes whose pods request them at that moment.

    Raises KubeError when the API server does not respond.
    """
    in_use: dict[str, list[str]] = {}
    removed = 0

    async def remove(node: OfferingNode) -> None:
        nonlocal removed
        pods = await kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        if users := sorted(map(_name, filter(_uses, pods))):
            in_use[node.name] = users
        else:
            await kube.set_node_amounts(node.name, dict.fromkeys(node.keys), uid=node.uid)
            removed += 1

    uncleared = await clear_each(kube, nodes, remove, clock, rate=rate, noun="nodes")
    return ClearedNodes(
        dry_run=False,
        found=len(nodes),
        in_use=in_use,
        removed=removed,
        deleted=uncleared.deleted,
        failed=uncleared.failed,
    )


def _uses(pod: Pod) -> bool:
    """Whether a pod occupies a node and requests reclaimed resources.

    A pod that cannot be read counts as requesting them.
    """
    if not occupies_node(pod):
        return False
    pod = with_known_amounts(pod)
    return bool(pod.metadata.unreadable) or requests_reclaimed(pod_requests(pod))


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


async def run_clear_reclaimed(cluster: Kubernetes, *, rate: float, confirmed: bool, output: Output) -> None:
    """Run the command. Raises KubeError, and CommandFailed if amounts remain in the status of a node."""
    configure_logging(Logging(level="error"), "clear")
    clock = SystemClock()
    async with connect_kube(cluster, "clear", clock) as kube:
        nodes = await find_offering(kube)
        if confirmed:
            result = await clear_nodes(kube, clock, nodes, rate=rate)
        else:
            users, names = await find_users(kube), {node.name for node in nodes}
            in_use = {node: pods for node, pods in users.items() if node in names}
            result = ClearedNodes(dry_run=True, found=len(nodes), in_use=in_use)
        try:
            leases = await held_leases(kube, cluster.namespace, "reclaimer", clock)
        except Forbidden:
            leases = []
        result = msgspec.structs.replace(result, active_reclaimer=held_text(leases))
    print_result(result, partial(show, namespace=cluster.namespace), output=output)
    if result.failed:
        raise CommandFailed("the status of some nodes could not be written")
    if confirmed and result.in_use:
        raise CommandFailed(f"the amounts of {count(len(result.in_use), 'node')} remain: run it again without the pods")


def show(result: ClearedNodes, to: Console, *, namespace: str) -> None:
    """Print the result. `namespace`: the namespace of Equipoise."""
    for line in _lines(result, namespace):
        to.print(line, highlight=False, markup=False)


def _lines(result: ClearedNodes, namespace: str) -> Iterable[str]:
    if not result.found:
        yield "no node offers reclaimed resources"
    elif result.dry_run:
        unused = result.found - len(result.in_use)
        yield (
            f"reclaimed resources found in the status of {count(result.found, 'node')}, of which pods request them on "
            f"{len(result.in_use)}; use --yes to remove them from the other {unused}"
        )
    else:
        yield f"amounts removed from the status of {count(result.removed, 'node')}"
        if result.deleted:
            yield f"{count(result.deleted, 'node')} no longer in the cluster"
    for node, pods in result.in_use.items():
        yield f"in use: {node}: requested by {listed(pods, _MAX_PODS)}"
    for node, error in result.failed.items():
        yield f"failed: {node}: {error}"
    if result.active_reclaimer and result.found:
        yield (
            f"{result.active_reclaimer}: with reclaimer.mode enforce it writes the amounts again; stop it with "
            f"`kubectl -n {namespace} scale deployment equipoise-reclaimer --replicas 0`"
        )
