"""`equipoise annotations clear`: takes our annotations off all nodes and workloads, and crane's when asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console

from equipoise.annotator.decisions.replicas import SELECTOR, live
from equipoise.cli.progress import Report, progress
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.terminal import console
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE
from equipoise.contracts.kubernetes.crane import KEYS as CRANE
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import (
    LEASES,
    NODES,
    WORKLOAD_RESOURCES,
    Conflict,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    Resource,
    connect_kube,
)
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

OURS = (LOAD, USAGE)

RESOURCES: tuple[Resource[Any], ...] = (NODES, *WORKLOAD_RESOURCES.values())
"""Deployments before ReplicaSets: their controller copies annotations from the one to the other."""


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """An object with annotations that are to go."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource.kind, self.namespace, self.name)))


class Cleared(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was found, and what became of it."""

    dry_run: bool
    found: dict[str, int]
    """Objects by kind."""

    removed: dict[str, int] = {}
    gone: int = 0
    """Objects that were deleted meanwhile."""

    failed: dict[str, str] = {}
    """By object, why its annotations are still there."""

    annotators: list[str] = []
    """Those that are alive: they will write again."""


async def find_marked(kube: Kube, keys: Sequence[str]) -> list[Marked]:
    """Every node and workload that has one of these annotations. Kinds that this cluster does not have are left out."""
    found: list[Marked] = []
    for resource in RESOURCES:
        try:
            async with aclosing(kube.watch(resource)) as changes:
                async for change in changes:
                    if change.object is not None:
                        metadata = change.object.metadata
                        if there := tuple(key for key in keys if key in metadata.annotations):
                            found.append(
                                Marked(
                                    resource=resource, namespace=metadata.namespace, name=metadata.name,
                                    uid=metadata.uid, keys=there,
                                )
                            )  # fmt: skip
                    if change.synced:
                        break
        except NotFound:
            continue
    return found


async def clear(kube: Kube, clock: Clock, marked: Sequence[Marked], *, rate: float, report: Report) -> Cleared:
    """Take them off, `rate` objects a second. An object that cannot be written is told of, the others go on.

    Raises KubeError when the API server does not answer any more.
    """
    removed: dict[str, int] = {}
    failed: dict[str, str] = {}
    gone = 0
    for thing in marked:
        begun = clock.monotonic()
        try:
            await _remove(kube, clock, thing)
            removed[thing.resource.kind] = removed.get(thing.resource.kind, 0) + 1
        except (NotFound, Conflict):
            gone += 1
        except KubeError as error:
            if error.status == 0:
                raise
            failed[str(thing)] = str(error)
        report(str(thing))
        await clock.sleep(1 / rate - (clock.monotonic() - begun))
    return Cleared(dry_run=False, found=counted(marked), removed=removed, gone=gone, failed=failed)


async def _remove(kube: Kube, clock: Clock, thing: Marked) -> None:
    nothing = dict.fromkeys(thing.keys)
    try:
        await kube.annotate(thing.resource, thing.name, nothing, namespace=thing.namespace, uid=thing.uid)
    except KubeError as error:
        if error.status != 429:
            raise
        await clock.sleep(error.retry_after or 1.0)
        await kube.annotate(thing.resource, thing.name, nothing, namespace=thing.namespace, uid=thing.uid)


def counted(marked: Sequence[Marked]) -> dict[str, int]:
    """Objects by kind."""
    return dict(Counter(thing.resource.kind for thing in marked))


async def annotators(kube: Kube, namespace: str, clock: Clock) -> list[str]:
    """Those that are alive, as far as one may know."""
    try:
        seats = await kube.list(LEASES, namespace, SELECTOR)
    except Forbidden:
        return []
    return sorted(live(seats, datetime.fromtimestamp(kube.server_time(clock.now()), UTC)))


async def run_clear(cluster: Kubernetes, *, crane: bool, rate: float, confirmed: bool, as_json: bool) -> None:
    """The command. Raises KubeError, and CommandFailed if annotations could not be removed."""
    configure_logging(Logging(level="error"), "clear")
    clock = SystemClock()
    async with connect_kube(cluster, "clear", clock) as kube:
        marked = await find_marked(kube, (*OURS, *CRANE) if crane else OURS)
        if not confirmed:
            result = Cleared(dry_run=True, found=counted(marked))
        else:
            with progress(len(marked), "clearing", "objects") as report:
                result = await clear(kube, clock, marked, rate=rate, report=report)
        result = msgspec.structs.replace(result, annotators=await annotators(kube, cluster.namespace, clock))
    if as_json:
        print(msgspec.json.encode(result).decode())
    else:
        show(result, console())
    if result.failed:
        raise CommandFailed("some annotations could not be removed")


def show(result: Cleared, to: Console) -> None:
    """Print it as people read it."""
    if not result.found:
        to.print("nothing is annotated")
    elif result.dry_run:
        to.print(f"annotated: {_told(result.found)}. Nothing was removed: --yes does it")
    else:
        gone = f"; {result.gone} were deleted meanwhile" if result.gone else ""
        to.print(f"removed from {_told(result.removed) or 'nothing'}{gone}")
    for thing, why in result.failed.items():
        to.print(f"failed: {thing}: {why}")
    if result.annotators and (result.found or not result.dry_run):
        names = ", ".join(result.annotators)
        to.print(f"{names} will write again: kubectl -n NAMESPACE scale deployment equipoise-annotator --replicas 0")


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items())
