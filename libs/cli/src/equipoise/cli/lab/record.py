"""`equipoise lab record`: records a running cluster as a trace."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.service_settings import all_settings, read_file
from equipoise.lab.record import RecordError, RecordOptions, record


def run_record(
    configuration: Path | None,
    *,
    prometheus_url: str | None,
    kubeconfig: str | None,
    context: str | None,
    as_json: bool,
    **extent: Any,
) -> None:
    """Run the command. Arguments override the file; `extent` has `days`, `step` and `out`.

    Raises InvalidInput, ConfigurationError and CommandFailed.
    """
    settings = all_settings(read_file(configuration))
    given = {name: text for name, text in (("kubeconfig", kubeconfig), ("context", context)) if text}
    kubernetes = msgspec.structs.replace(settings.shared.kubernetes, **given)
    prometheus = settings.collector.prometheus
    if prometheus_url:
        prometheus = msgspec.structs.replace(prometheus, url=prometheus_url)
    try:
        options = RecordOptions(prometheus=prometheus, kubernetes=kubernetes, **extent)
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    try:
        summary = asyncio.run(record(options, Console(stderr=True, highlight=False)))
    except RecordError as error:
        raise CommandFailed(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(summary, enc_hook=str))
    else:
        click.echo(f"{summary}\nnext: equipoise lab whatif {summary.folder}")
