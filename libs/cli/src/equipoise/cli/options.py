"""Options that several commands share."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from equipoise.runtime.configuration import Kubernetes, Nats

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
"""The value is passed to the command as `as_json`."""

Output = Literal["text", "wide", "json", "yaml"]

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format. Times are in RFC 3339.",
)
wide_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format; wide has all rows and more columns. Times are in RFC 3339.",
)
"""The values of both output options are passed to the command as `output`."""

prices_option = click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Prices per hour, YAML or the nodes of OpenCost's /assets. Defaults to descheduler.consolidation.prices.",
)


class FiniteRange(click.FloatRange):
    """A finite number in a range. `nan` passes every comparison with a limit, and no clock can wait for `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


watch_option = click.option(
    "-w",
    "--watch",
    type=FiniteRange(min=1),
    is_flag=False,
    flag_value=10.0,
    metavar="[SECONDS]",
    help="Repeat, every 10 seconds by default, until Ctrl-C.",
)
"""The value is passed to the command as `watch`; None without the option."""

context_option = click.option("--context", help="Context of the kubeconfig. Defaults to the current context.")
kubeconfig_option = click.option(
    "--kubeconfig", help="Kubeconfig files, separated by colons. Defaults to $KUBECONFIG, then to ~/.kube/config."
)
user_option = click.option("--user", help="NATS user, normally tap. Defaults, without --nats, to tap.")
password_option = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the password of --user. Defaults, without --nats, to the Secret in the cluster.",
)


def _checked_prometheus(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The URL, as the configuration accepts it. Raises click.BadParameter."""
    from equipoise.collector.settings import PrometheusSettings

    try:
        return value if value is None else PrometheusSettings(url=value).url
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


prometheus_option = click.option(
    "--prometheus",
    "prometheus_url",
    metavar="URL",
    callback=_checked_prometheus,
    help="URL of Prometheus; a Service of the cluster, http://NAME.NAMESPACE.svc:9090, is reached through the API "
    "server. Defaults to the configuration, then to the Prometheus that is found in the cluster.",
)

nats_option = click.option(
    "--nats",
    "url",
    envvar="EQUIPOISE_NATS__URL",
    help="URL of NATS. Defaults to that of `equipoise up` on this machine, then to the server in the cluster, through "
    "the API server.  [env: EQUIPOISE_NATS__URL]",
)
nats_ca_option = click.option(
    "--nats-ca",
    "ca_file",
    envvar="EQUIPOISE_NATS__TLS__CA_FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the CA of --nats. Requires TLS.  [env: EQUIPOISE_NATS__TLS__CA_FILE]",
)


def command_name() -> str:
    """The name of the running command, by which servers know this client: `report`, `explain-pod`."""
    names: list[str] = []
    context: click.Context | None = click.get_current_context()
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name or "")
        context = context.parent
    return "-".join(names)


def configuration_option(help_text: str = "Configuration file. Defaults apply without one.") -> Decorator:
    """Adds the option --config, whose value is passed as `configuration`."""
    return click.option(
        "--config",
        "configuration",
        envvar="EQUIPOISE_CONFIG",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"{help_text}  [env: EQUIPOISE_CONFIG]",
    )


@dataclass(frozen=True, kw_only=True)
class BusOptions:
    """The values of --nats, --user, --password-file and --nats-ca; None if an option is not given."""

    command: str
    """The name of the client."""

    url: str | None
    user: str | None
    password_file: str | None
    ca_file: str | None

    def settings(self) -> "Nats":
        """The connection to NATS; without --nats, to NATS on this machine. Raises click.UsageError."""
        from equipoise.runtime.bus.nats.connection import CommandNats
        from equipoise.runtime.configuration import Nats, Tls

        try:
            tls = None if self.ca_file is None else Tls(ca_file=self.ca_file)
            url = self.url or Nats().url
            return CommandNats(url=url, user=self.user, password_file=self.password_file, tls=tls, client=self.command)
        except ValueError as error:
            raise click.UsageError(str(error).replace("user and passwordFile", "--user and --password-file")) from None


def nats_options(command: Function) -> Function:
    """Adds the options --nats, --user, --password-file and --nats-ca, whose values are passed as `bus`."""

    @nats_option
    @user_option
    @password_option
    @nats_ca_option
    @wraps(command)
    def with_bus(
        *, url: str | None, user: str | None, password_file: str | None, ca_file: str | None, **values: Any
    ) -> Any:
        bus = BusOptions(command=command_name(), url=url, user=user, password_file=password_file, ca_file=ca_file)
        bus.settings()  # reports invalid options first
        return command(bus=bus, **values)

    return with_bus


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The values of --config, --kubeconfig, --context and --namespace."""

    command: str
    """The name of the client."""

    configuration: Path | None
    kubeconfig: str | None
    context: str | None
    namespace: str | None = None

    def connection(self) -> "Kubernetes":
        """The connection to the API server. Options override environment variables, which override the file.

        If none of them names a namespace, it is that of a running `equipoise up`.

        Raises ConfigurationError and InvalidInput.
        """
        from msgspec.structs import replace

        from equipoise.cli.cluster_access.kubeconfig import cluster_connection, cluster_name
        from equipoise.cli.up.running_up import running_up
        from equipoise.runtime.configuration import Kubernetes

        connection = cluster_connection(
            self.configuration, os.environ, kubeconfig=self.kubeconfig, context=self.context
        )
        namespace = self.namespace or connection.namespace
        if namespace == Kubernetes().namespace and not (self.namespace or self.configuration):
            running = running_up(cluster_name(connection, os.environ), os.environ)
            namespace = running.namespace if running is not None else namespace
        return replace(connection, namespace=namespace)

    def optional_connection(self) -> "Kubernetes | str":
        """The connection, or why there is none, for a command that needs one only if the options name a cluster.

        Raises ConfigurationError and, if the options name a cluster, InvalidInput.
        """
        from equipoise.cli.exit_codes import InvalidInput

        try:
            return self.connection()
        except InvalidInput as error:
            if self.kubeconfig or self.context:
                raise
            return error.message


def cluster_options(command: Function) -> Function:
    """Adds the options --config, --kubeconfig, --context and --namespace, whose values are passed as `cluster`."""

    @configuration_option()
    @kubeconfig_option
    @context_option
    @click.option("-n", "--namespace", help="Namespace of Equipoise. Defaults to the configuration: equipoise-system.")
    @wraps(command)
    def with_cluster(
        *,
        configuration: Path | None,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        **values: Any,
    ) -> Any:
        cluster = ClusterOptions(
            command=command_name(),
            configuration=configuration,
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
        )
        return command(cluster=cluster, **values)

    return with_cluster
