"""`equipoise doctor`."""

import os

import click

from equipoise.cli.completed_names import checks_of_doctor
from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    Output,
    cluster_options,
    nats_ca_option,
    output_option,
    password_option,
    prometheus_option,
    user_option,
)


@click.command()
@click.argument("names", metavar="[CHECK]...", nargs=-1, shell_complete=checks_of_doctor)
@prometheus_option
@click.option(
    "--nats",
    "url",
    help="URL of NATS. Defaults to the configuration; one of the cluster is reached through the API server.",
)
@user_option
@password_option
@nats_ca_option
@cluster_options
@output_option
def doctor(
    names: tuple[str, ...],
    prometheus_url: str | None,
    url: str | None,
    user: str | None,
    password_file: str | None,
    ca_file: str | None,
    cluster: ClusterOptions,
    output: Output,
) -> None:
    """Check everything that Equipoise depends on, and print what is wrong and how to fix it.

    With the names of checks, such as `clocks`, only these run. Changes nothing. Without --config it checks what
    services run with, as they publish it. The exit code is 1 if there are errors; warnings and checks that could not
    run do not count.
    """
    import asyncio

    from msgspec.structs import replace

    from equipoise.cli.bus.access import in_cluster_address, nats_of_up, up_of
    from equipoise.cli.doctor.checks import CHECKS
    from equipoise.cli.doctor.run import run_doctor, settings_for
    from equipoise.cli.effective.settings import file_settings
    from equipoise.cli.service_settings import all_settings, read_file
    from equipoise.cli.up.services_settings import settings_beside
    from equipoise.runtime.configuration import Tls

    if unknown := [name for name in names if name not in CHECKS]:
        raise click.UsageError(f"there is no check {unknown[0]}; the checks are {', '.join(CHECKS)}")
    result = cluster.optional_connection()
    connection, problem = (None, result) if isinstance(result, str) else (result, "")
    tls = None if ca_file is None else Tls(ca_file=ca_file)
    nats = {"url": url, "user": user, "password_file": password_file, "tls": tls}
    try:
        settings = settings_for(
            cluster.configuration, os.environ, prometheus_url=prometheus_url, nats=nats, cluster=connection
        )
        services_nats = all_settings(read_file(cluster.configuration)).shared.nats if cluster.configuration else None
    except ValueError as error:
        raise click.UsageError(str(error).replace("user and passwordFile", "--user and --password-file")) from None
    through_cluster = local = None
    if url is None and connection is not None and cluster.configuration is None:
        local = nats_of_up(_bus(cluster, user, password_file, ca_file), connection)
    if local is not None and connection is not None:
        settings = replace(settings, shared=replace(settings.shared, nats=local))
        running = up_of(connection)
        beside = None if running is None else settings_beside(running, settings)
        if beside is not None:
            settings = beside if prometheus_url is None else replace(beside, collector=settings.collector)
    elif url is None and connection is not None and in_cluster_address(settings.shared.nats, connection):
        through_cluster = _bus(cluster, user, password_file, ca_file)
    healthy = asyncio.run(
        run_doctor(
            settings,
            {name: check for name, check in CHECKS.items() if not names or name in names},
            services_nats=services_nats,
            cluster_problem=problem,
            through_cluster=through_cluster,
            find_prometheus=cluster.configuration is None,
            file=None if cluster.configuration is None else file_settings(cluster.configuration, os.environ),
            prometheus_url=prometheus_url,
            output=output,
        )
    )
    if not healthy:
        raise SystemExit(1)


def _bus(cluster: ClusterOptions, user: str | None, password_file: str | None, ca_file: str | None) -> BusOptions:
    return BusOptions(command=cluster.command, url=None, user=user, password_file=password_file, ca_file=ca_file)
