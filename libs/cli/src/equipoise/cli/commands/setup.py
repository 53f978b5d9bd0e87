"""The command `equipoise setup` creates what services need before they start: NATS streams, namespace and ledger."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from equipoise.cli.options import configuration_option


@click.command()
@configuration_option()
def setup(configuration: Path | None) -> None:
    """Create the NATS streams and the eviction ledger.

    Existing streams are updated, an existing ledger is kept: the command is safe to repeat.
    """
    import asyncio

    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging

    configure_logging(Logging(), "setup")
    asyncio.run(create_resources(configuration, os.environ))
    click.echo("streams and ledger are ready")


async def create_resources(configuration: Path | None, environment: Mapping[str, str] | None = None) -> None:
    """Create the missing resources, after waiting for NATS. Raises ConfigurationError, BusError and KubeError.

    Variables of `environment` override the file; without it, none do.
    """
    from equipoise.binder.shell.ledger_store import create_ledger
    from equipoise.cli.service_settings import all_settings, read_file
    from equipoise.contracts.kubernetes.objects.cluster import Namespace
    from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
    from equipoise.runtime.bus.setup import setup_streams
    from equipoise.runtime.kubernetes.client import NAMESPACES, NotFound
    from equipoise.runtime.kubernetes.connection import connect_kube
    from equipoise.runtime.process.clock import SystemClock

    settings = all_settings(read_file(configuration), environment)
    shared = settings.shared
    await setup_streams(shared.nats, intent_max_age=settings.descheduler.intent_lifetime)
    clock = SystemClock()
    async with connect_kube(shared.kubernetes, "setup", clock) as kube:
        try:
            await create_ledger(kube, shared.kubernetes.namespace, clock)
        except NotFound:
            # This happens only outside of a cluster. Inside, the manifests create the namespace, and setup may not.
            metadata = ObjectMeta(name=shared.kubernetes.namespace)
            await kube.create(NAMESPACES, Namespace(api_version="v1", kind="Namespace", metadata=metadata))
            await create_ledger(kube, shared.kubernetes.namespace, clock)
