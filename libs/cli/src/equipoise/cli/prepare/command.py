"""`equipoise prepare`."""

import os
from pathlib import Path

import click

from equipoise.cli.options import configuration_option


@click.command()
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["passwords", "nats-certificate", "extender-certificates", "hints-webhook-certificate"]),
    help="Secrets that are not created, because they are yours. May be repeated.",
)
@click.option("--volume", is_flag=True, help="Fail at once if the claim of NATS would get no volume.")
@configuration_option()
def prepare(without: tuple[str, ...], volume: bool, configuration: Path | None) -> None:
    """Create the Secrets that the pods of Equipoise wait for, and find the source of metrics.

    The Job `equipoise-prepare` runs it before an installation and before each upgrade. What exists is kept, whoever
    created it: the command is safe to repeat.
    """
    import asyncio

    from equipoise.cli.prepare.run import run_prepare
    from equipoise.cli.prepare.secret_contents import PARTS

    asyncio.run(run_prepare(configuration, os.environ, [part for part in PARTS if part not in without], volume=volume))
