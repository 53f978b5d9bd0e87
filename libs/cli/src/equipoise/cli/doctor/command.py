"""`equipoise doctor`."""

import os

import click

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.options import ClusterOptions, cluster_options, json_option, password_option, user_option


@click.command()
@click.option("--prometheus", "prometheus_url", help="URL of Prometheus. Defaults to the configuration.")
@click.option("--nats", "url", help="URL of the NATS server. Defaults to the configuration.")
@user_option
@password_option
@cluster_options
@json_option
def doctor(
    prometheus_url: str | None,
    url: str | None,
    user: str | None,
    password_file: str | None,
    cluster: ClusterOptions,
    as_json: bool,
) -> None:
    """Check everything that Equipoise depends on, and print what is wrong and how to fix it.

    Changes nothing. The exit code is 1 if there are errors; warnings and checks that could not run do not count.
    """
    import asyncio

    from equipoise.cli.doctor.run import run_doctor, settings_for

    connection, problem = None, ""
    try:
        connection = cluster.connection()
    except InvalidInput as error:
        if cluster.kubeconfig or cluster.context:
            raise
        problem = error.message
    nats = {"url": url, "user": user, "password_file": password_file}
    try:
        settings = settings_for(
            cluster.configuration, os.environ, prometheus_url=prometheus_url, nats=nats, cluster=connection
        )
    except ValueError as error:
        raise click.UsageError(str(error).replace("passwordFile", "--password-file")) from None
    if not asyncio.run(run_doctor(settings, cluster_problem=problem, as_json=as_json)):
        raise SystemExit(1)
