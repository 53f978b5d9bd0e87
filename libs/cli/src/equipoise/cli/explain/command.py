"""`equipoise explain`."""

import click

from equipoise.cli import completed_names
from equipoise.cli.hints.command import hints
from equipoise.cli.options import BusOptions, ClusterOptions, Output, cluster_options, nats_options, wide_output_option


@click.group()
def explain() -> None:
    """Explain why a node is hot, the scores of a pod, the hints of a workload, or an eviction."""


explain.add_command(hints, "workload")


@explain.command()
@click.argument("name", metavar="NAMESPACE/NAME", shell_complete=completed_names.pods)
@click.option(
    "--node",
    default="",
    shell_complete=completed_names.nodes,
    help="Also show the details of this node, whatever its score.",
)
@nats_options
@cluster_options
@wide_output_option
def pod(name: str, node: str, bus: BusOptions, cluster: ClusterOptions, output: Output) -> None:
    """Score all nodes for a placed pod, and show the inputs.

    It is scored as if it were scheduled now.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.explain.scores import pod_request, run_explain

    request = pod_request(name, node)
    run_with_bus(bus, cluster, lambda server: run_explain(request, server, cluster, output=output))


@explain.command()
@click.argument("name", shell_complete=completed_names.nodes)
@nats_options
@cluster_options
@wide_output_option
def node(name: str, bus: BusOptions, cluster: ClusterOptions, output: Output) -> None:
    """Show why a node is hot or is not, its pods by usage, and how an example pod would be scored.

    The thresholds are those that the descheduler runs with. The example is a pod without requests.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.explain.node import run_explain_node

    run_with_bus(bus, cluster, lambda server: run_explain_node(name, server, cluster, output=output))


@explain.command()
@click.argument("name", metavar="[NAMESPACE/NAME]", required=False, shell_complete=completed_names.pods)
@nats_options
@cluster_options
@wide_output_option
def eviction(name: str | None, bus: BusOptions, cluster: ClusterOptions, output: Output) -> None:
    """Explain why a pod was evicted, or why it was not. Without a name, list the newest outcomes.

    From the samples to the replacement of the pod, from messages that are retained for 24 hours. What the bus does not
    have, as after a restart of `equipoise up`, is read from the ledger and from Events.
    """
    import asyncio

    from equipoise.cli.explain.eviction import run_explain_eviction
    from equipoise.cli.explain.recent_outcomes import run_recent_outcomes
    from equipoise.cli.explain.scores import pod_name

    if name is None:
        asyncio.run(run_recent_outcomes(bus, cluster, output=output))
        return
    pod_name(name)  # reports an invalid name first
    asyncio.run(run_explain_eviction(name, bus, cluster, output=output))
