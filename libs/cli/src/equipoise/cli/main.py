"""The commands of `equipoise`: names and options. The work is done elsewhere, imported when it is asked for."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from equipoise.cli.endings import plain_endings
from equipoise.cli.lab.commands import lab
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.testbed.command import testbed

if TYPE_CHECKING:
    from equipoise.contracts.messages.explanation import ExplainRequest
    from equipoise.runtime.configuration import Kubernetes, Nats

PLUGIN = "kubectl-equipoise"
"""How kubectl finds us: it runs a program of this name for `kubectl equipoise`."""


class Program(click.Group):
    """All commands, and how they end."""

    def make_context(self, info_name: str | None, *args: Any, **extra: Any) -> click.Context:
        plugin = info_name == PLUGIN
        return super().make_context("kubectl equipoise" if plugin else info_name, *args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with plain_endings():
            return super().invoke(ctx)


configuration_option = click.option(
    "--config",
    "configuration",
    envvar="EQUIPOISE_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file; without one everything has its default.  [env: EQUIPOISE_CONFIG]",
)
context_option = click.option("--context", help="Of the kubeconfig; default: the current one.")
kubeconfig_option = click.option(
    "--kubeconfig", help="Files, parted by colons; default: what KUBECONFIG names, else ~/.kube/config."
)
nats_option = click.option(
    "--nats", "url", envvar="EQUIPOISE_NATS__URL", default="nats://127.0.0.1:4222", show_default=True
)
user_option = click.option("--user", help="NATS user, where the server knows users: tap.")
password_option = click.option("--password-file", type=click.Path(exists=True, dir_okay=False))
output_option = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong input, 130 interrupted.",
)
def main() -> None:
    """Keep the real load of a Kubernetes cluster level."""


main.add_command(lab)
main.add_command(testbed)


@main.command()
@output_option
def version(output: str) -> None:
    """Print the version."""
    import json
    from importlib.metadata import version as distribution_version

    number = distribution_version("equipoise-cli")
    click.echo(json.dumps({"version": number}) if output == "json" else f"equipoise {number}")


@main.command(name="run")
@click.argument("service", type=click.Choice(SERVICES))
@configuration_option
def run_service(service: str, configuration: Path | None) -> None:
    """Run one service in this process."""
    import importlib

    if configuration is not None:
        os.environ["EQUIPOISE_CONFIG"] = str(configuration)
    importlib.import_module(f"equipoise.{service}.__main__").main()


@main.command()
@click.option(
    "--trace",
    "trace_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Replay a slice of 40 occupied nodes of this trace folder instead of the generated example.",
)
@click.option("--seed", default=1, show_default=True, help="Which example, or which slice of the trace.")
@click.option("--keep", is_flag=True, help="Leave everything running and say how to look around.")
def demo(trace_folder: Path | None, seed: int, keep: bool) -> None:
    """The whole loop on a throwaway real cluster; its last line is one JSON object."""
    import asyncio

    from rich.console import Console

    from equipoise.cli.demo.run import DemoOptions, Screen, encoded, run_demo
    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging

    configure_logging(Logging(level="warning"), "demo")
    screen = Screen(Console(stderr=True))
    result = asyncio.run(run_demo(DemoOptions(trace_folder=trace_folder, seed=seed, keep=keep), screen))
    click.echo(encoded(result))


@main.command()
@click.argument("subject", default="")
@nats_option
@user_option
@password_option
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="json: a line each."
)
def tap(subject: str, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Watch what the services say.

    SUBJECT may be a pattern: eviction, 'utilization.node.*', '*.node.NAME'. Without one everything is shown.
    """
    import asyncio

    from equipoise.cli.tap import run_tap

    asyncio.run(run_tap(subject, _nats(url, user, password_file), as_json=output == "json"))


@main.command()
@click.option("-o", "--output", type=click.Choice(["text", "asyncapi"]), default="text", show_default=True)
def events(output: str) -> None:
    """Tell what can be heard on the bus: a page with an example of each message, or an AsyncAPI 3 document (YAML)."""
    from equipoise.cli.events.asyncapi import asyncapi_yaml
    from equipoise.cli.events.page import page

    click.echo(asyncapi_yaml() if output == "asyncapi" else page(), nl=False)


@main.command()
@click.option("--diff", "only_changes", is_flag=True, help="Only what is new since the last plan that was shown.")
@nats_option
@user_option
@password_option
@output_option
def plan(only_changes: bool, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Show which pods would move now, from where to where and why, and who stays. It proposes nothing."""
    import asyncio

    from equipoise.cli.plan import run_plan

    server = _nats(url, user, password_file)
    asyncio.run(run_plan(server, os.environ, as_json=output == "json", only_changes=only_changes))


@main.group()
def explain() -> None:
    """Ask why: where a pod should go, how a node looks to the scorer, what became of an eviction."""


@explain.command(name="pod")
@click.argument("pod", metavar="NAMESPACE/NAME")
@click.option("--node", default="", help="Tell of this node too, however it scores: why not there?")
@nats_option
@user_option
@password_option
@output_option
def explain_pod(pod: str, node: str, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Score a pod that has a node as if it asked for one now, and show what the scores stand on."""
    from equipoise.cli.explain import question_about_pod

    _explain(question_about_pod(pod, node), _nats(url, user, password_file), output)


@explain.command(name="node")
@click.argument("node", metavar="NAME")
@nats_option
@user_option
@password_option
@output_option
def explain_node(node: str, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Show where a node's load comes from, and how it looks to a pod that asks for nothing."""
    from equipoise.contracts.messages.explanation import ExplainRequest

    _explain(ExplainRequest(node=node), _nats(url, user, password_file), output)


@explain.command(name="eviction")
@click.argument("pod", metavar="NAMESPACE/NAME")
@nats_option
@user_option
@password_option
@output_option
def explain_eviction(pod: str, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Tell why a pod was evicted, or was not, from the samples to its replacement. Kept are 24 hours."""
    import asyncio

    from equipoise.cli.eviction.run import run_explain_eviction

    server = _nats(url, user, password_file)
    if problem := asyncio.run(run_explain_eviction(pod, server, as_json=output == "json")):
        raise click.ClickException(problem)


@main.command()
@click.option("--since", default="7d", show_default=True, help="How long back: 30m, 12h, 7d. Kept are 8 days.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file too, as a page.")
@nats_option
@user_option
@password_option
@output_option
def report(since: str, html: Path | None, url: str, user: str | None, password_file: str | None, output: str) -> None:
    """Where pods would have gone: what the scorer's advice adds up to. Needs no extender entry, no right to evict."""
    import asyncio

    from equipoise.cli.report.run import run_report
    from equipoise.contracts.configuration.duration import Duration

    try:
        span = Duration.parse(since)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    server = _nats(url, user, password_file)
    if problem := asyncio.run(run_report(span, server, as_json=output == "json", html=html)):
        raise click.ClickException(problem)


def _explain(question: "ExplainRequest", server: "Nats", output: str) -> None:
    import asyncio

    from equipoise.cli.explain import run_explain

    if problem := asyncio.run(run_explain(question, server, as_json=output == "json")):
        raise click.ClickException(problem)


def _nats(url: str, user: str | None, password_file: str | None) -> "Nats":
    from equipoise.runtime.configuration import Nats

    try:
        return Nats(url=url, user=user, password_file=password_file)
    except ValueError as error:
        raise click.UsageError(str(error).replace("passwordFile", "--password-file")) from None


@main.group()
def config() -> None:
    """Defaults, check and schema of the configuration."""


@config.command()
def defaults() -> None:
    """Print every setting with its default, as YAML."""
    from equipoise.cli.sections import SECTIONS
    from equipoise.runtime.configuration import defaults_document

    click.echo(defaults_document(SECTIONS), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    import json

    from equipoise.cli.sections import SECTIONS
    from equipoise.runtime.configuration import document_schema

    click.echo(json.dumps(document_schema(SECTIONS), indent=2))


@config.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
def validate(file: TextIO) -> None:
    """Check a configuration file, all sections strictly; - reads standard input. Exit code 2 when it is wrong."""
    from equipoise.cli.sections import SECTIONS
    from equipoise.runtime.configuration import validate_document

    validate_document(file.read(), SECTIONS)
    click.echo("valid")


@main.command()
@configuration_option
def setup(configuration: Path | None) -> None:
    """Make the streams and, where there is none, the ledger of evictions. Safe to repeat."""
    import asyncio

    from equipoise.cli.preparation import prepare
    from equipoise.runtime.configuration import Logging
    from equipoise.runtime.process.logging import configure_logging

    configure_logging(Logging(), "setup")
    asyncio.run(prepare(configuration, os.environ))
    click.echo("streams and ledger are there")


@main.command()
@click.option(
    "--out", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where the files go."
)
@click.option("--name", "names", multiple=True, help="A further DNS name of the scorer; may be repeated.")
@click.option("--address", "addresses", multiple=True, help="An IP address of the scorer; may be repeated.")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are valid.")
@click.option("--force", is_flag=True, help="Renew the certificates in the folder with the authority that is there.")
def certificates(folder: Path, names: tuple[str, ...], addresses: tuple[str, ...], days: int, force: bool) -> None:
    """Make the certificates of scorer and kube-scheduler, and say what to do with them."""
    from equipoise.cli.certificates import make_certificates
    from equipoise.runtime.process.clock import SystemClock

    now = SystemClock().now()
    click.echo(make_certificates(folder, names=names, addresses=addresses, days=days, force=force, now=now))


@main.command()
@click.option("--why", default="", help="Said by every refused eviction.")
@configuration_option
@kubeconfig_option
@context_option
def pause(why: str, configuration: Path | None, kubeconfig: str | None, context: str | None) -> None:
    """Evict nothing more, at once and in the whole cluster, until `resume`."""
    import asyncio

    from equipoise.cli.pausing import paused

    click.echo(asyncio.run(paused(_cluster(configuration, kubeconfig, context), why or "equipoise pause")))


@main.command()
@configuration_option
@kubeconfig_option
@context_option
def resume(configuration: Path | None, kubeconfig: str | None, context: str | None) -> None:
    """Let evictions happen again, with halved limits at first; makes a ledger where none can be read."""
    import asyncio

    from equipoise.cli.pausing import resumed

    click.echo(asyncio.run(resumed(_cluster(configuration, kubeconfig, context))))


@main.command()
@configuration_option
@kubeconfig_option
@context_option
@output_option
def status(configuration: Path | None, kubeconfig: str | None, context: str | None, output: str) -> None:
    """Show whether anything may be evicted, what is under way and how much of each limit is used."""
    import asyncio

    from equipoise.cli.status import limits_of, run_status

    limits = limits_of(configuration, os.environ)
    measured_by = f"the limits of {configuration}" if configuration else "the default limits (others: --config FILE)"
    cluster = _cluster(configuration, kubeconfig, context)
    asyncio.run(run_status(cluster, limits, as_json=output == "json", measured_by=measured_by))


@main.group()
def annotations() -> None:
    """What the annotator wrote on nodes and workloads."""


@annotations.command()
@click.option("--crane", is_flag=True, help="Also crane-scheduler's annotations on nodes, whoever wrote them.")
@click.option("--rate", type=click.FloatRange(0.1, 1_000), default=10.0, show_default=True, help="Objects a second.")
@click.option("--yes", "confirmed", is_flag=True, help="Really remove them; without it they are only counted.")
@configuration_option
@kubeconfig_option
@context_option
@output_option
def clear(
    crane: bool,
    rate: float,
    confirmed: bool,
    configuration: Path | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Remove our annotations from all nodes and workloads. Stop the annotator first, or it writes them again."""
    import asyncio

    from equipoise.cli.clearing import run_clear

    cluster = _cluster(configuration, kubeconfig, context)
    done = run_clear(cluster, crane=crane, rate=rate, confirmed=confirmed, as_json=output == "json")
    if not asyncio.run(done):
        raise click.ClickException("some annotations could not be removed")


def _cluster(configuration: Path | None, kubeconfig: str | None, context: str | None) -> "Kubernetes":
    from equipoise.cli.pausing import cluster_of

    return cluster_of(configuration, os.environ, kubeconfig=kubeconfig, context=context)


@main.command()
@configuration_option
@click.option("--prometheus", "prometheus_url", help="Its URL as seen from here; default: of the configuration.")
@click.option("--nats", "url", help="As seen from here; default: of the configuration.")
@user_option
@password_option
@kubeconfig_option
@context_option
@output_option
def doctor(
    configuration: Path | None,
    prometheus_url: str | None,
    url: str | None,
    user: str | None,
    password_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Look at all that Equipoise stands on, and say what is wrong and what to do. It changes nothing.

    Exit code 1 when something is wrong; warnings and what could not be looked at are told and do not count.
    """
    import asyncio

    from equipoise.cli.doctor.run import configured_by, run_doctor
    from equipoise.cli.endings import WrongInput

    cluster, problem = None, ""
    try:
        cluster = _cluster(configuration, kubeconfig, context)
    except WrongInput as error:
        if kubeconfig or context:
            raise
        problem = str(error)
    try:
        bus = {"url": url, "user": user, "password_file": password_file}
        configured = configured_by(configuration, os.environ, prometheus_url=prometheus_url, bus=bus, cluster=cluster)
    except ValueError as error:
        raise click.UsageError(str(error).replace("passwordFile", "--password-file")) from None
    if not asyncio.run(run_doctor(configured, cluster_problem=problem, as_json=output == "json")):
        raise SystemExit(1)


@main.command()
@click.option("--prometheus", "prometheus_url", required=True, help="URL of the Prometheus that scrapes the kubelets.")
@context_option
@kubeconfig_option
@configuration_option
@click.option("--evict", is_flag=True, help="Really evict. Asks for the context's name first.")
@click.option("--yes", "confirmed", metavar="CONTEXT", help="Answers that question, for scripts.")
def up(
    prometheus_url: str,
    context: str | None,
    kubeconfig: str | None,
    configuration: Path | None,
    evict: bool,
    confirmed: str | None,
) -> None:
    """Run all five services here against a cluster. Evictions are dry runs unless --evict."""
    from equipoise.cli.kubeconfig import chosen_context, default_files
    from equipoise.cli.up import run_up

    if confirmed is not None and not evict:
        raise click.UsageError("--yes answers the question of --evict: give both, or neither")
    chosen = chosen_context(kubeconfig or default_files(), context)
    run_up(prometheus_url, chosen, configuration, evict=evict, confirmed=confirmed)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script: eval "$(equipoise completion bash)"."""
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(main, {}, "equipoise", "_EQUIPOISE_COMPLETE").source())
