"""`equipoise top`."""

import click

from equipoise.cli.options import BusOptions, ClusterOptions, FiniteRange, cluster_options, json_option, nats_options


@click.command()
@click.option("--once", is_flag=True, help="Print the nodes once as a table, when all loads are known, and end.")
@click.option(
    "--wait",
    type=FiniteRange(min=0),
    default=30.0,
    show_default=True,
    help="With --once: seconds to wait for loads that are unknown.",
)
@nats_options
@cluster_options
@json_option
def top(once: bool, wait: float, bus: BusOptions, cluster: ClusterOptions, as_json: bool) -> None:
    """Watch the load of the nodes, moves, limits and what is unknown, in the terminal.

    The same view as that of `equipoise dashboard`. It changes nothing. -o json implies --once.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.views.terminal.top import run_once, run_top

    if once or as_json:
        run_with_bus(bus, cluster, lambda server: run_once(server, cluster, wait=wait, as_json=as_json))
    else:
        run_with_bus(bus, cluster, lambda server: run_top(server, cluster))
