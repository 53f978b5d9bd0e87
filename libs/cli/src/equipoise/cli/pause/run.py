"""Writes the field of the ledger that keeps every binder from reserving an eviction."""

from equipoise.binder.shell import ledger_store
from equipoise.cli.exit_codes import CommandFailed
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


async def pause_evictions(cluster: Kubernetes, why: str) -> str:
    """What was done, as a sentence. Raises KubeError and CommandFailed."""
    configure_logging(Logging(level="warning"), "pause")
    async with connect_kube(cluster, "pause", SystemClock()) as kube:
        try:
            return await ledger_store.pause(kube, cluster.namespace, why)
        except ledger_store.NotDone as error:
            raise CommandFailed(str(error)) from None


async def resume_evictions(cluster: Kubernetes, *, forget: bool = False) -> str:
    """What was done, as a sentence. Raises KubeError and CommandFailed."""
    configure_logging(Logging(level="warning"), "resume")
    clock = SystemClock()
    async with connect_kube(cluster, "resume", clock) as kube:
        try:
            return await ledger_store.resume(kube, cluster.namespace, clock, forget=forget)
        except ledger_store.NotDone as error:
            raise CommandFailed(str(error)) from None
