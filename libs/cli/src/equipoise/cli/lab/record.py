"""`equipoise lab record`: records a running cluster as a trace."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from equipoise.cli.cluster_access.kubeconfig import cluster_connection
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.prometheus.access import reached_prometheus
from equipoise.cli.service_settings import all_settings, read_file
from equipoise.cli.terminal import VisibleConsole, json_line
from equipoise.lab.record import RecordError, RecordOptions, Summary, record
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock


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
    kubernetes = cluster_connection(configuration, os.environ, kubeconfig=kubeconfig, context=context)
    prometheus = all_settings(read_file(configuration)).collector.prometheus
    if prometheus_url:
        prometheus = msgspec.structs.replace(prometheus, url=prometheus_url)
    try:
        options = RecordOptions(prometheus=prometheus, kubernetes=kubernetes, **extent)
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    try:
        summary = asyncio.run(_record(options))
    except RecordError as error:
        raise CommandFailed(str(error)) from error
    if as_json:
        click.echo(json_line(summary))
    else:
        click.echo(f"{summary}\nnext: {next_step(summary)}")


def next_step(summary: Summary) -> str:
    """The command to run after a recording. `whatif` needs at least a day, because it compares days."""
    whatif = f"equipoise lab whatif {summary.folder}"
    if summary.hours >= 24:
        return whatif
    return f"record again when Prometheus has at least a day of samples; then {whatif}"


async def _record(options: RecordOptions) -> Summary:
    console, in_pod = VisibleConsole(stderr=True), not options.kubernetes.kubeconfig
    note = partial(console.print, soft_wrap=True)
    async with (
        connect_kube(options.kubernetes, "lab", SystemClock()) as api,
        reached_prometheus(options.prometheus, api, in_pod=in_pod, note=note) as prometheus,
    ):
        return await record(msgspec.structs.replace(options, prometheus=prometheus), console)
