"""Reads the file, prints the translation, and ends with an exit code."""

import json
import sys
from typing import Any, BinaryIO

import click

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.foreign_configuration.documents import find_document
from equipoise.cli.foreign_configuration.rendering import document_text, print_remarks
from equipoise.cli.foreign_configuration.sources import translate
from equipoise.cli.foreign_configuration.translation import Translation
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.cli.terminal import PIPE_WIDTH, VisibleConsole, plain
from equipoise.runtime.configuration import ConfigurationError, validate_document
from equipoise.runtime.configuration.yaml_text import LIMIT, read_yaml

INCOMPLETE = 3
"""The exit code of a translation that loses or changes a setting."""


def run_translation(file: BinaryIO, *, as_json: bool) -> None:
    """Run the command. Raises InvalidInput, and SystemExit with INCOMPLETE."""
    content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise InvalidInput(f"the file has more than {LIMIT} bytes")
    text, translation = translated(content.decode())
    if as_json:
        result: dict[str, Any] = {"configuration": read_yaml(text), "remarks": plain(translation.remarks)}
        click.echo(json.dumps(result))
    else:
        click.echo(text, nl=False)
        width = None if sys.stderr.isatty() else PIPE_WIDTH
        print_remarks(translation.remarks, VisibleConsole(stderr=True, width=width))
    if not translation.complete:
        raise SystemExit(INCOMPLETE)


def translated(text: str) -> tuple[str, Translation]:
    """The configuration as YAML, and the translation with its remarks. Raises ConfigurationError."""
    translation = translate(find_document(text))
    document = document_text(translation)
    try:
        validate_document(document, SERVICE_SETTINGS)
    except ConfigurationError as error:
        raise ConfigurationError(f"these settings contradict each other in Equipoise:\n{error}") from None
    return document, translation
