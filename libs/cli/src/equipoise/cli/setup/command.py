"""`equipoise setup`."""

import os
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

    from equipoise.cli.setup.resources import create_resources
    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging

    configure_logging(Logging(), "setup")
    asyncio.run(create_resources(configuration, os.environ))
    click.echo("streams and ledger are ready")
