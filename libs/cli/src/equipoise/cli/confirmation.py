"""A confirmation before a command makes evictions possible."""

import sys

import click

from equipoise.cli.exit_codes import CommandFailed, InvalidInput


def confirm(question: str, *, confirmed: bool, nothing_done: str) -> None:
    """Require --yes, or the answer yes on a terminal.

    `nothing_done`: the text of the error, for example "not resumed". Raises InvalidInput without a terminal and without
    --yes, and CommandFailed if the answer is no.
    """
    if confirmed:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"{nothing_done}: the command needs a confirmation, and there is no terminal: use --yes")
    if not click.confirm(question, err=True):
        raise CommandFailed(nothing_done)
