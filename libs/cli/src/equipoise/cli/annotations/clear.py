"""Removes Equipoise's annotations from nodes, workloads and pods, its taint from nodes, and on request the annotations
of crane-scheduler."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from rich.console import Console

from equipoise.annotator.decisions.replicas import SELECTOR, live_members
from equipoise.cli.annotations.clearing import clear_each
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import Output
from equipoise.cli.terminal import print_result
from equipoise.contracts.eviction.deletion_cost import DELETION_COST, is_own_cost
from equipoise.contracts.kubernetes.annotations import LOAD, RECLAIMED, USAGE
from equipoise.contracts.kubernetes.crane import KEYS as CRANE
from equipoise.contracts.kubernetes.nodes.consolidation_taint import is_consolidation
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import (
    LEASES,
    NODES,
    PODS,
    WORKLOAD_RESOURCES,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    Resource,
)
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

OURS = (LOAD, USAGE, RECLAIMED)

RESOURCES: tuple[Resource[Any], ...] = (NODES, *WORKLOAD_RESOURCES.values(), PODS)
"""The kinds to clear. Deployments precede ReplicaSets, because their controller copies annotations to ReplicaSets."""


class AnnotatedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object and its annotations to remove, and a node also its taint."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    keys: tuple[str, ...]
    expected: Mapping[str, str] = {}
    """Values without which the annotations are those of another program."""

    taint: Taint | None = None
    """The taint of a node that was being emptied."""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource.kind, self.namespace, self.name)))


class ClearResult(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool
    found: dict[str, int]
    """Number of objects by kind."""

    tainted: int = 0
    """The number of nodes with the taint of consolidation; they are in `found`, too."""

    removed: dict[str, int] = {}
    deleted: int = 0
    """The number of objects that were deleted in the meantime."""

    failed: dict[str, str] = {}
    """The error of each object that could not be written, by object."""

    active_annotators: list[str] = []
    """Running annotators, which will write the annotations again."""


async def find_annotated(kube: Kube, keys: Sequence[str]) -> list[AnnotatedObject]:
    """Every node and workload with one of these annotations, every pod with a deletion cost that Equipoise wrote, and
    every node with its taint. Kinds that the cluster does not have are skipped."""
    found: list[AnnotatedObject] = []
    for resource in RESOURCES:
        try:
            async with aclosing(kube.watch(resource)) as changes:
                async for change in changes:
                    if change.object is not None:
                        metadata, taint = change.object.metadata, None
                        if isinstance(change.object, Node):
                            taint = next(filter(is_consolidation, change.object.spec.taints), None)
                        expected = _own_cost(metadata.annotations) if resource is PODS else {}
                        of_kind = expected if resource is PODS else keys
                        present = tuple(key for key in of_kind if key in metadata.annotations)
                        if present or taint is not None:
                            found.append(
                                AnnotatedObject(
                                    resource=resource, namespace=metadata.namespace, name=metadata.name,
                                    uid=metadata.uid, keys=present, expected=expected, taint=taint,
                                )
                            )  # fmt: skip
                    if change.synced:
                        break
        except NotFound:
            continue
    return found


def _own_cost(annotations: Mapping[str, str]) -> dict[str, str]:
    cost = annotations.get(DELETION_COST, "")
    return {DELETION_COST: cost} if is_own_cost(cost) else {}


async def clear(kube: Kube, clock: Clock, objects: Sequence[AnnotatedObject], *, rate: float) -> ClearResult:
    """Remove annotations and taints from `rate` objects per second. The result names the objects that could not be
    written.

    Raises KubeError when the API server does not respond.
    """
    removed: Counter[str] = Counter()

    async def remove(each: AnnotatedObject) -> None:
        await _remove(kube, clock, each)
        removed[each.resource.kind] += 1

    uncleared = await clear_each(kube, objects, remove, clock, rate=rate, noun="objects")
    return ClearResult(
        dry_run=False,
        found=by_kind(objects),
        tainted=tainted(objects),
        removed=dict(removed),
        deleted=uncleared.deleted,
        failed=uncleared.failed,
    )


async def _remove(kube: Kube, clock: Clock, each: AnnotatedObject) -> None:
    remove = partial(
        kube.annotate, each.resource, each.name, dict.fromkeys(each.keys),
        namespace=each.namespace, uid=each.uid, expected=each.expected,
    )  # fmt: skip
    if each.keys:
        try:
            await remove()
        except KubeError as error:
            if error.status != 429:
                raise
            await clock.sleep(error.retry_after or 1.0)
            await remove()
    if each.taint is not None:
        node = await kube.get(NODES, each.name)  # the removed annotations have changed its version
        if node.metadata.uid == each.uid:
            await kube.set_taint(node, each.taint, present=False)


def tainted(objects: Sequence[AnnotatedObject]) -> int:
    """The number of nodes with the taint."""
    return sum(each.taint is not None for each in objects)


def by_kind(objects: Sequence[AnnotatedObject]) -> dict[str, int]:
    return dict(Counter(each.resource.kind for each in objects))


async def active_annotators(kube: Kube, namespace: str, clock: Clock) -> list[str]:
    """The annotators that hold a Lease; empty if the Leases may not be read."""
    try:
        leases = await kube.list(LEASES, namespace, SELECTOR)
    except Forbidden:
        return []
    return sorted(live_members(leases, datetime.fromtimestamp(kube.server_time(clock.now()), UTC)))


async def run_clear(cluster: Kubernetes, *, crane: bool, rate: float, confirmed: bool, output: Output) -> None:
    """Run the command. Raises KubeError, and CommandFailed if annotations could not be removed."""
    configure_logging(Logging(level="error"), "clear")
    clock = SystemClock()
    async with connect_kube(cluster, "clear", clock) as kube:
        objects = await find_annotated(kube, (*OURS, *CRANE) if crane else OURS)
        if not confirmed:
            result = ClearResult(dry_run=True, found=by_kind(objects), tainted=tainted(objects))
        else:
            result = await clear(kube, clock, objects, rate=rate)
        annotators = await active_annotators(kube, cluster.namespace, clock)
        result = msgspec.structs.replace(result, active_annotators=annotators)
    print_result(result, partial(show, namespace=cluster.namespace), output=output)
    if result.failed:
        raise CommandFailed("some annotations could not be removed")


def show(result: ClearResult, to: Console, *, namespace: str) -> None:
    """Print the result. `namespace`: the namespace of Equipoise."""
    what = "annotations and taints" if result.tainted else "annotations"
    if not result.found:
        to.print("no annotations found")
    elif result.dry_run:
        to.print(f"{what} found on {_counts(result.found)}; use --yes to remove them")
    else:
        deleted = f"; {result.deleted} objects no longer exist" if result.deleted else ""
        to.print(f"{what} removed from {_counts(result.removed) or 'no objects'}{deleted}")
    for name, error in result.failed.items():
        to.print(f"failed: {name}: {error}")
    if result.active_annotators and (result.found or not result.dry_run):
        names = ", ".join(result.active_annotators)
        to.print(
            f"active annotators will write the annotations again: {names}; stop them with "
            f"`kubectl -n {namespace} scale deployment equipoise-annotator --replicas 0`"
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items())
