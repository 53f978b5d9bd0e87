"""`equipoise pause` and `resume`: the field of the ledger that keeps every binder from reserving an eviction."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from equipoise.binder.shell import ledger_store
from equipoise.cli.kubeconfig import chosen_context, default_files
from equipoise.runtime.configuration import Kubernetes, Logging, read_document, read_sections
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


def cluster_of(
    configuration: Path | None, environment: Mapping[str, str], *, kubeconfig: str | None, context: str | None
) -> Kubernetes:
    """Where the ledger is: options over variables over the file. Raises ConfigurationError, InvalidInput."""
    plain = {} if configuration is None else read_document(configuration.read_text())
    shared, _ = read_sections(plain, {}, environment)
    cluster = shared.kubernetes
    files = kubeconfig or cluster.kubeconfig
    if not files and "KUBERNETES_SERVICE_HOST" in environment:
        return cluster
    chosen = chosen_context(files or default_files(), context or cluster.context or None)
    return msgspec.structs.replace(cluster, kubeconfig=chosen.files, context=chosen.name)


async def paused(cluster: Kubernetes, why: str) -> str:
    """Pause; what was done, as people read it. Raises KubeError."""
    configure_logging(Logging(level="warning"), "pause")
    async with connect_kube(cluster, "pause", SystemClock()) as kube:
        return await ledger_store.pause(kube, cluster.namespace, why)


async def resumed(cluster: Kubernetes) -> str:
    """Resume; what was done, as people read it. Raises KubeError."""
    configure_logging(Logging(level="warning"), "resume")
    clock = SystemClock()
    async with connect_kube(cluster, "resume", clock) as kube:
        return await ledger_store.resume(kube, cluster.namespace, clock)
