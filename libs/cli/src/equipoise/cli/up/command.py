"""`equipoise up`."""

from pathlib import Path

import click

from equipoise.cli.options import configuration_option, context_option, kubeconfig_option, prometheus_option


@click.command()
@prometheus_option
@context_option
@kubeconfig_option
@configuration_option()
@click.option("--annotate", is_flag=True, help="Write annotations on nodes and workloads: run the annotator too.")
@click.option("--evict", is_flag=True, help="Evict pods, after a confirmation with the name of the context.")
@click.option("--yes", "confirmation", metavar="CONTEXT", help="Confirm --evict without a prompt.")
def up(
    prometheus_url: str | None,
    context: str | None,
    kubeconfig: str | None,
    configuration: Path | None,
    annotate: bool,
    evict: bool,
    confirmation: str | None,
) -> None:
    """Run Equipoise on this machine against a cluster.

    Every eviction is a dry run unless --evict is given, and nodes and workloads are not annotated unless --annotate is
    given. The ledger and the Leases of the services are written in the namespace of Equipoise, which is created.
    """
    from equipoise.cli.cluster_access.kubeconfig import chosen_context, default_files
    from equipoise.cli.up.run import run_up

    if confirmation is not None and not evict:
        raise click.UsageError("--yes confirms --evict: give both or neither")
    chosen = chosen_context(kubeconfig or default_files(), context)
    run_up(prometheus_url, chosen, configuration, annotate=annotate, evict=evict, confirmation=confirmation)
