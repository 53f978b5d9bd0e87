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


def record_options(
    configuration: Path | None,
    *,
    prometheus_url: str | None,
    kubeconfig: str | None,
    context: str | None,
    **extent: Any,
) -> RecordOptions:
    """Arguments override the file; `extent`: `days`, `step` and `out`. Raises InvalidInput and ConfigurationError."""
    settings = all_settings(read_file(configuration))
    given = {"kubeconfig": kubeconfig, "context": context}
    kubernetes = msgspec.structs.replace(
        settings.shared.kubernetes, **{name: text for name, text in given.items() if text}
    )
    prometheus = settings.collector.prometheus
    if prometheus_url:
        prometheus = msgspec.structs.replace(prometheus, url=prometheus_url)
    try:
        return RecordOptions(prometheus=prometheus, kubernetes=kubernetes, **extent)
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def run_record(options: RecordOptions, *, as_json: bool) -> None:
    """Raises CommandFailed."""
    try:
        summary = asyncio.run(record(options, Console(stderr=True, highlight=False)))
    except RecordError as error:
        raise CommandFailed(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(summary, enc_hook=str))
    else:
        click.echo(f"{summary}\nnext: equipoise lab whatif {summary.folder}")
