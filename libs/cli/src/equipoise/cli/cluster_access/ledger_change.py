"""Changes the ledger, which all binders obey: pauses and resumes evictions, and starts and ends campaigns."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
from rich.console import Console

from equipoise.binder.shell import ledger_store
from equipoise.binder.state.campaign import Campaign
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
    """The result of a command that changes the ledger."""

    cluster: ClusterName
    result: Literal[
        "paused",
        "not paused",
        "resumed",
        "not resumed",
        "started",
        "not started",
        "aborted",
        "not aborted",
        "unknown",
    ]
    message: str
    campaign: Campaign | None = None
    """The campaign that was changed; None if it was something else."""


Done = Literal["paused", "resumed", "started", "aborted"]

_NOT: Mapping[Done, Literal["not paused", "not resumed", "not started", "not aborted"]] = {
    "paused": "not paused",
    "resumed": "not resumed",
    "started": "not started",
    "aborted": "not aborted",
}


async def pause_evictions(cluster: Kubernetes, why: str, *, output: Output) -> None:
    """Pause all evictions. Raises CommandFailed if they were not paused, or if that is unknown."""

    async def pause(kube: Kube) -> tuple[str, None]:
        return await ledger_store.pause(kube, cluster.namespace, why), None

    await change_in_cluster(cluster, "pause", "paused", pause, output=output)


async def resume_evictions(cluster: Kubernetes, *, forget: bool, output: Output) -> None:
    """Resume evictions. Raises CommandFailed if they were not resumed, or if that is unknown."""

    async def resume(kube: Kube) -> tuple[str, None]:
        return await ledger_store.resume(kube, cluster.namespace, SystemClock(), forget=forget), None

    await change_in_cluster(cluster, "resume", "resumed", resume, output=output)


async def change_in_cluster(
    cluster: Kubernetes,
    command: str,
    done: Done,
    change: Callable[[Kube], Awaitable[tuple[str, Campaign | None]]],
    *,
    output: Output,
    what: str = "evictions are",
) -> None:
    """Change the ledger, and print what was done. `change` returns the message and, if it changes one, the campaign.

    `what`: the subject of a sentence with `done`. Raises CommandFailed if it is not done, or if that is unknown.
    """
    configure_logging(Logging(level="error"), command)
    name = cluster_name(cluster, os.environ)
    try:
        async with connect_kube(cluster, command, SystemClock()) as kube:
            message, campaign = await change(kube)
            result = LedgerChange(cluster=name, result=done, message=message, campaign=campaign)
    except (ledger_store.NotDone, KubeError) as error:
        result = LedgerChange(cluster=name, result=_NOT[done], message=_not_done_text(done, error))
        if isinstance(error, KubeError) and _may_be_written(error):
            text = f"UNKNOWN whether {what} {done}: {error}; check with `equipoise status`"
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
    if result.result in _NOT:
        to.print(result.message, markup=False)
