"""Writes the field of the ledger that keeps every binder from reserving an eviction."""

from equipoise.binder.shell import ledger_store
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


async def pause_evictions(cluster: Kubernetes, why: str) -> str:
    """What was done, as a sentence. Raises KubeError."""
    configure_logging(Logging(level="warning"), "pause")
    async with connect_kube(cluster, "pause", SystemClock()) as kube:
        return await ledger_store.pause(kube, cluster.namespace, why)


async def resume_evictions(cluster: Kubernetes) -> str:
    """What was done, as a sentence. Raises KubeError."""
    configure_logging(Logging(level="warning"), "resume")
    clock = SystemClock()
    async with connect_kube(cluster, "resume", clock) as kube:
        return await ledger_store.resume(kube, cluster.namespace, clock)
