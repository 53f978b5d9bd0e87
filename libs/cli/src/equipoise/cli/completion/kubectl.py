"""`kubectl_complete-equipoise`: kubectl runs a program of this name to complete `kubectl equipoise`."""

import sys

import click
from click.shell_completion import ShellComplete

from equipoise.cli.main import PLUGIN, main
from equipoise.runtime.process.visible_stream import make_output_visible

NO_FILES = 4
"""The directive for kubectl that file names are not completed."""


def complete() -> None:
    """Prints a line for each candidate for the last argument, and what kubectl should do with them."""
    make_output_visible()
    *arguments, incomplete = sys.argv[1:] or [""]
    for candidate in ShellComplete(main, {}, PLUGIN, "").get_completions(arguments, incomplete):
        click.echo(f"{candidate.value}\t{candidate.help}" if candidate.help else candidate.value)
    click.echo(f":{NO_FILES}")
