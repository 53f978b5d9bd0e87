"""`equipoise annotations`."""

import click

from equipoise.cli.options import ClusterOptions, FiniteRange, Output, cluster_options, output_option


@click.group()
def annotations() -> None:
    """Manage the annotations that the annotator writes on nodes and workloads."""


@annotations.command()
@click.option("--crane", is_flag=True, help="Also remove crane-scheduler's annotations from nodes.")
@click.option(
    "--reclaimed",
    is_flag=True,
    help="Instead of annotations, remove reclaimed resources (kubernetes.io/batch-cpu and the like) from the status of "
    "nodes on which no pod requests them.",
)
@click.option("--rate", type=FiniteRange(0.1, 1_000), default=10.0, show_default=True, help="Objects per second.")
@click.option("--yes", "confirmed", is_flag=True, help="Remove them. Without it they are only counted.")
@cluster_options
@output_option
def clear(crane: bool, reclaimed: bool, rate: float, confirmed: bool, cluster: ClusterOptions, output: Output) -> None:
    """Remove Equipoise's annotations from all nodes, workloads and pods, and the taint of nodes that were being emptied
    or, with --reclaimed, reclaimed resources.

    Stop the annotator, or the reclaimer, first: while it runs it writes them again.
    """
    import asyncio

    if reclaimed:
        from equipoise.cli.annotations.clear_reclaimed import run_clear_reclaimed

        if crane:
            raise click.UsageError("--crane removes annotations: omit it, or --reclaimed")
        asyncio.run(run_clear_reclaimed(cluster.connection(), rate=rate, confirmed=confirmed, output=output))
        return

    from equipoise.cli.annotations.clear import run_clear

    asyncio.run(run_clear(cluster.connection(), crane=crane, rate=rate, confirmed=confirmed, output=output))
