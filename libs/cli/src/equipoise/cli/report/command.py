"""`equipoise report`."""

from importlib.util import find_spec
from pathlib import Path

import click
from click.core import ParameterSource

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    cluster_options,
    json_option,
    nats_options,
    prometheus_option,
)

PERIOD = "7d"
"""The usual period."""

OF_THE_BUS = ("url", "user", "password_file", "ca_file")
"""The parameters of `nats_options`."""


@click.command()
@click.option(
    "--since", help=f"Report the past instead, for example 30m, 12h or {PERIOD}. Advice is retained for 8 days."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Also write the report of the past to this file; without --since that of {PERIOD}.",
)
@click.option("--now", is_flag=True, hidden=True, help="What the command does without --since.")
@prometheus_option
@nats_options
@cluster_options
@json_option
@click.pass_context
def report(
    context: click.Context,
    since: str | None,
    html: Path | None,
    now: bool,
    prometheus_url: str | None,
    bus: BusOptions,
    cluster: ClusterOptions,
    as_json: bool,
) -> None:
    """Report what is uneven now, or where pods of the past days would have been placed (--since).

    Now: which nodes are uneven, which workloads make them so, and what the descheduler would change. Reads Prometheus
    and the API server; needs nothing else, and writes nothing.

    With --since: which pods the scorer would have placed elsewhere, which it publishes while it runs. Reads the bus.
    Needs no extender entry in kube-scheduler and no permission to evict.
    """
    import asyncio

    past = since is not None or html is not None
    if past and now:
        raise click.UsageError("--since and --html are of the report of the past: omit them, or --now")
    if past and prometheus_url is not None:
        raise click.UsageError("--prometheus is of the report of what is uneven now: omit it, or --since and --html")
    if not past and any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in OF_THE_BUS):
        raise click.UsageError(
            f"options of NATS are of the report of the past: add --since, for example --since {PERIOD}"
        )
    if not past:
        from equipoise.cli.cluster_now.options import NowOptions
        from equipoise.cli.report.now.run import run_report_now

        asyncio.run(run_report_now(NowOptions(prometheus_url=prometheus_url, cluster=cluster), as_json=as_json))
        return
    if html is not None and find_spec("equipoise.lab") is None:
        raise click.UsageError("--html is a part of the lab: run pip install 'equipoise[lab]'")

    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.report.run import run_report
    from equipoise.contracts.configuration.duration import Duration

    try:
        period = Duration.parse(since or PERIOD)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    run_with_bus(bus, cluster, lambda server: run_report(period, server, as_json=as_json, html=html))
