"""`equipoise tap`."""

import click

from equipoise.cli import completed_names
from equipoise.cli.options import BusOptions, ClusterOptions, cluster_options, json_option, nats_options


@click.command()
@click.argument("subject", default="", shell_complete=completed_names.subjects)
@nats_options
@cluster_options
@json_option
def tap(subject: str, bus: BusOptions, cluster: ClusterOptions, as_json: bool) -> None:
    """Watch the messages of the services, one line per message.

    SUBJECT may be a pattern: eviction, 'utilization.node.*', '*.node.NAME'. The default is every subject.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.tap.run import run_tap, subscriptions_for

    subscriptions_for(subject)  # an unknown one is reported without a connection
    run_with_bus(bus, cluster, lambda server: run_tap(subject, server, as_json=as_json))
