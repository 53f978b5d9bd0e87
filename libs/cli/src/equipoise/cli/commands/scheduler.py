"""`equipoise scheduler`."""

import os
from pathlib import Path

import click

from equipoise.cli.options import context_option, kubeconfig_option


@click.command()
@click.option(
    "--config",
    "configuration",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="KubeSchedulerConfiguration. Without one: the defaults, for pods with schedulerName equipoise-scheduler.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Plugin in Python, or FILE.py:CLASS; may be repeated. With --config, a profile must enable it by its name.",
)
@click.option(
    "--policy",
    metavar="NAME",
    help="Score nodes by their load, with this policy of the scorer: for example, --policy profile. The load is read "
    "from NATS, as the NATS user scorer. With --config, a profile must enable the plugin EquipoiseLoad.",
)
@click.option(
    "--equipoise-config",
    "equipoise",
    envvar="EQUIPOISE_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="For --policy: the configuration of Equipoise (nats, load, scorer). Defaults apply without one.  "
    "[env: EQUIPOISE_CONFIG]",
)
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Namespace of the Lease.")
@click.option(
    "--listen",
    default="127.0.0.1:10359",
    show_default=True,
    metavar="HOST:PORT",
    help="Address of /healthz, /readyz and /metrics.",
)
def scheduler(
    configuration: Path | None,
    plugins: tuple[str, ...],
    policy: str | None,
    equipoise: Path | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    listen: str,
) -> None:
    """Schedule pods as a second scheduler of a cluster (experimental).

    Pods whose schedulerName is that of a profile are scheduled as by kube-scheduler 1.37, and with your plugins. It
    binds pods, and for pods of higher priority it deletes others (preemption). Other pods are left to their schedulers.
    """
    from equipoise.cli.cluster_access.kubeconfig import cluster_connection
    from equipoise.cli.exit_codes import InvalidInput
    from equipoise.runtime.configuration import load_configuration
    from equipoise.runtime.process.bounded_files import read_bounded_text
    from equipoise.scheduler.service import run_scheduler
    from equipoise.scheduler.settings import (
        LoadScoring,
        SchedulerProgramSettings,
        scheduler_configuration,
        with_policy,
    )
    from equipoise.scheduling.plugin_loading import load_plugins
    from equipoise.scheduling.settings.document import InvalidConfiguration
    from equipoise.scorer.settings import ScorerSettings

    text = None if configuration is None else read_bounded_text(configuration)
    try:
        registered, load, nats = load_plugins(plugins), None, None
        if policy is not None:
            configured = load_configuration(equipoise, "scorer", ScorerSettings, os.environ)
            load = LoadScoring(load=configured.shared.load, scorer=with_policy(configured.own, policy))
            nats = configured.shared.nats
        settings = SchedulerProgramSettings(
            configuration=scheduler_configuration(text, registered, load=load is not None),
            plugins=registered,
            load=load,
            namespace=namespace,
        )
        connection = cluster_connection(None, os.environ, kubeconfig=kubeconfig, context=context)
        run_scheduler(settings, connection, nats, listen=listen)
    except InvalidConfiguration as error:
        raise InvalidInput(str(error)) from None
