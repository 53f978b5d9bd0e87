"""`equipoise run`."""

import os
from pathlib import Path

import click

from equipoise.cli.options import configuration_option
from equipoise.contracts.bus.subjects import ALL_SERVICES


@click.command()
@click.argument("service", type=click.Choice(ALL_SERVICES))
@configuration_option()
def run(service: str, configuration: Path | None) -> None:
    """Run one service in this process."""
    from importlib import import_module

    if configuration is not None:
        os.environ["EQUIPOISE_CONFIG"] = str(configuration)
    import_module(f"equipoise.{service}.__main__").main()
