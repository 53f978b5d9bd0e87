"""Options that several commands share."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from equipoise.runtime.configuration import Kubernetes

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]

json_option = click.option(
    "-o",
    "--output",
    "as_json",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    callback=lambda context, parameter, value: value == "json",
    help="Output format.",
)
"""Passed to the command as `as_json`."""

context_option = click.option("--context", help="Context of the kubeconfig. Defaults to the current context.")
kubeconfig_option = click.option(
    "--kubeconfig", help="Kubeconfig files, separated by colons. Defaults to $KUBECONFIG, then to ~/.kube/config."
)
user_option = click.option("--user", help="NATS user, normally tap. Not needed if the server has no users.")
password_option = click.option(
    "--password-file", type=click.Path(exists=True, dir_okay=False), help="File with the password of --user."
)

nats_ca_option = click.option(
    "--nats-ca",
    "ca_file",
    envvar="EQUIPOISE_NATS__TLS__CA_FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the CA of the NATS server. Requires TLS.  [env: EQUIPOISE_NATS__TLS__CA_FILE]",
)


def configuration_option(help_text: str = "Configuration file. Defaults apply without one.") -> Decorator:
    """--config, passed as `configuration`."""
    return click.option(
        "--config",
        "configuration",
        envvar="EQUIPOISE_CONFIG",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"{help_text}  [env: EQUIPOISE_CONFIG]",
    )


def nats_options(command: Function) -> Function:
    """--nats, --user, --password-file and --nats-ca, passed as `server`."""

    @click.option(
        "--nats",
        "url",
        envvar="EQUIPOISE_NATS__URL",
        default="nats://127.0.0.1:4222",
        show_default=True,
        help="URL of the NATS server.",
    )
    @user_option
    @password_option
    @nats_ca_option
    @wraps(command)
    def with_server(
        *, url: str, user: str | None, password_file: str | None, ca_file: str | None, **values: Any
    ) -> Any:
        from equipoise.runtime.configuration import Nats, Tls

        try:
            tls = None if ca_file is None else Tls(ca_file=ca_file)
            server = Nats(url=url, user=user, password_file=password_file, tls=tls)
        except ValueError as error:
            raise click.UsageError(str(error).replace("passwordFile", "--password-file")) from None
        return command(server=server, **values)

    return with_server


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """--config, --kubeconfig and --context."""

    configuration: Path | None
    kubeconfig: str | None
    context: str | None

    def connection(self) -> "Kubernetes":
        """Options override environment variables, these the file. Raises ConfigurationError and InvalidInput."""
        from equipoise.cli.kubeconfig import cluster_connection

        return cluster_connection(self.configuration, os.environ, kubeconfig=self.kubeconfig, context=self.context)


def cluster_options(command: Function) -> Function:
    """--config, --kubeconfig and --context, passed as `cluster`."""

    @configuration_option()
    @kubeconfig_option
    @context_option
    @wraps(command)
    def with_cluster(*, configuration: Path | None, kubeconfig: str | None, context: str | None, **values: Any) -> Any:
        cluster = ClusterOptions(configuration=configuration, kubeconfig=kubeconfig, context=context)
        return command(cluster=cluster, **values)

    return with_cluster
