"""`equipoise report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.cli.options import json_option, nats_options

if TYPE_CHECKING:
    from equipoise.runtime.configuration import Nats


@click.command()
@click.option("--since", default="7d", show_default=True, help="Period: 30m, 12h, 7d. Advice is retained for 8 days.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to this file.")
@nats_options
@json_option
def report(since: str, html: Path | None, server: "Nats", as_json: bool) -> None:
    """Report where the scorer would have placed the pods of the past days.

    Needs no extender entry in kube-scheduler and no permission to evict.
    """
    import asyncio

    from equipoise.cli.report.run import run_report
    from equipoise.contracts.configuration.duration import Duration

    try:
        period = Duration.parse(since)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    asyncio.run(run_report(period, server, as_json=as_json, html=html))
