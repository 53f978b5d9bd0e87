"""Pauses and resumes evictions in the ledger, which all binders obey."""

import os
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
from rich.console import Console

from equipoise.binder.shell import ledger_store
from equipoise.cli.cluster_access.kubeconfig import ClusterName, cluster_name
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import Output
from equipoise.cli.terminal import print_result
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import Conflict, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


class LedgerChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of `equipoise pause` or `equipoise resume`."""

    cluster: ClusterName
    result: Literal["paused", "not paused", "resumed", "not resumed", "unknown"]
    message: str


async def pause_evictions(cluster: Kubernetes, why: str, *, output: Output) -> None:
    """Pause all evictions. Raises CommandFailed if they were not paused, or if that is unknown."""

    async def pause(kube: Kube) -> str:
        return await ledger_store.pause(kube, cluster.namespace, why)

    await _change(cluster, "paused", pause, output=output)


async def resume_evictions(cluster: Kubernetes, *, forget: bool, output: Output) -> None:
    """Resume evictions. Raises CommandFailed if they were not resumed, or if that is unknown."""

    async def resume(kube: Kube) -> str:
        return await ledger_store.resume(kube, cluster.namespace, SystemClock(), forget=forget)

    await _change(cluster, "resumed", resume, output=output)


async def _change(
    cluster: Kubernetes,
    done: Literal["paused", "resumed"],
    change: Callable[[Kube], Awaitable[str]],
    *,
    output: Output,
) -> None:
    configure_logging(Logging(level="error"), "pause" if done == "paused" else "resume")
    name = cluster_name(cluster, os.environ)
    not_done: Literal["not paused", "not resumed"] = "not paused" if done == "paused" else "not resumed"
    try:
        async with connect_kube(cluster, done.removesuffix("d"), SystemClock()) as kube:
            result = LedgerChange(cluster=name, result=done, message=await change(kube))
    except (ledger_store.NotDone, KubeError) as error:
        result = LedgerChange(cluster=name, result=not_done, message=_not_done_text(done, error))
        if isinstance(error, KubeError) and _may_be_written(error):
            text = f"UNKNOWN whether evictions are {done}: {error}; check with `equipoise status`"
            result = LedgerChange(cluster=name, result="unknown", message=text)
    print_result(result, _show, output=output)
    if result.result != done:
        raise CommandFailed(result.message)


def _not_done_text(done: str, error: Exception) -> str:
    prefix = f"NOT {done}: "
    text = str(error)
    advice = ": try again" if isinstance(error, Conflict) and "try again" not in text else ""
    return text if text.startswith(prefix) else f"{prefix}{text}{advice}"


def _may_be_written(error: KubeError) -> bool:
    """Whether the API server may have written the ledger, because only its response was lost (status 0) or failed."""
    return error.status >= 500 or (error.status == 0 and error.reason != "NoCredentials")


def _show(result: LedgerChange, to: Console) -> None:
    """Print the cluster and a success. The text of a failure is in CommandFailed."""
    to.print(f"cluster: {result.cluster}", markup=False)
    if result.result in ("paused", "resumed"):
        to.print(result.message, markup=False)
