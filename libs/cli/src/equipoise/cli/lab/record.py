"""`equipoise lab record`: records a running cluster as a trace."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.collector.settings import CollectorSettings
from equipoise.lab.record import RecordError, RecordOptions, record
from equipoise.runtime.configuration import read_sections


def record_options(
    document: Mapping[str, Any],
    *,
    prometheus_url: str | None,
    kubeconfig: str | None,
    context: str | None,
    days: float,
    step: int,
    out: Path,
) -> RecordOptions:
    """Arguments override the document. Raises InvalidInput and ConfigurationError."""
    shared, own = read_sections(document, SERVICE_SETTINGS)
    collector = own["collector"]
    assert isinstance(collector, CollectorSettings)
    given = {"kubeconfig": kubeconfig, "context": context}
    kubernetes = msgspec.structs.replace(shared.kubernetes, **{name: text for name, text in given.items() if text})
    prometheus = collector.prometheus
    if prometheus_url:
        prometheus = msgspec.structs.replace(prometheus, url=prometheus_url)
    try:
        return RecordOptions(prometheus=prometheus, kubernetes=kubernetes, out=out, days=days, step=step)
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
