"""`equipoise uninstall`."""

import click

from equipoise.cli.options import ClusterOptions, FiniteRange, cluster_options


@click.command()
@click.option("--crane", is_flag=True, help="Also remove crane-scheduler's annotations from nodes.")
@click.option("--rate", type=FiniteRange(0.1, 1_000), default=10.0, show_default=True, help="Objects per second.")
@click.option("--yes", "confirmed", is_flag=True, help="Remove everything. Without --yes, it is only listed.")
@cluster_options
def uninstall(crane: bool, rate: float, confirmed: bool, cluster: ClusterOptions) -> None:
    """Remove Equipoise, and everything that it has written, from the cluster.

    The Helm release, annotations of nodes and workloads, reclaimed resources in the status of nodes, hints, the ledger,
    Leases, the streams of NATS, and the passwords and certificates that were created for you. It names what remains.
    """
    import asyncio

    from equipoise.cli.uninstall.run import run_uninstall

    asyncio.run(run_uninstall(cluster.connection(), crane=crane, rate=rate, confirmed=confirmed))
