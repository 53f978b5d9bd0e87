"""`equipoise version`."""

import json

import click

from equipoise.cli.options import json_option


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    from importlib.metadata import version as distribution_version

    number = distribution_version("equipoise")
    click.echo(json.dumps({"version": number}) if as_json else f"equipoise {number}")
