"""`equipoise testbed`: build, start, show and stop throwaway clusters.

Each command imports its dependencies itself: this module is imported at every start of the program.
"""

import json
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from equipoise.contracts.kubernetes.supported_versions import minor_versions
from equipoise.testbed import running_clusters
from equipoise.testbed.real_nodes.addresses import MAXIMUM_NODES
from equipoise.testbed.real_nodes.virtual_machine.systems import DEFAULT_SYSTEM, SYSTEMS, MachineSystem

CHECK_SECONDS = 1.0
STOP_SECONDS = 60.0
"""The time in which a cluster must stop. It first removes the files of real nodes, which are gigabytes."""

kubernetes_option = click.option(
    "--kubernetes",
    type=click.Choice(minor_versions()),
    help="Minor version of the control plane and of real nodes, built once. Default: the newest, or what is installed.",
)
output_option = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


def _file_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The name of a cluster is also the name of its state file."""
    if not value.replace("-", "").isalnum():
        raise click.BadParameter("a name is letters, digits and -")
    return value


@click.group()
def testbed() -> None:
    """A throwaway real Kubernetes cluster without Docker."""


@testbed.command("build")
@kubernetes_option
@output_option
def build_command(kubernetes: str | None, output: str) -> None:
    """Build the cluster's programs, once; `up` does it too."""
    from equipoise.testbed.binaries.build import BuildError, build
    from equipoise.testbed.binaries.toolchain import NoGoError

    try:
        binaries = {name: str(path) for name, path in asdict(build(kubernetes=kubernetes or "")).items()}
    except (BuildError, NoGoError) as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        click.echo(json.dumps(binaries, indent=1))
    else:
        _table(["program", "path"], [[name.replace("_", "-"), path] for name, path in binaries.items()])


@testbed.command()
@click.option("--name", default="default", show_default=True, callback=_file_name, help="Name of this cluster.")
@kubernetes_option
@click.option("--nodes", type=click.IntRange(0), default=5, show_default=True, help="Number of fake nodes.")
@click.option("--cpu", default="16", show_default=True, help="Cores of each node.")
@click.option("--memory", default="64Gi", show_default=True, help="Memory of each node.")
@click.option("--nats/--no-nats", default=False, show_default=True, help="Also start a NATS server with JetStream.")
@click.option(
    "--scrape-interval",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    help="Seconds between Prometheus' scrapes.",
)
@click.option(
    "--scheduler-configuration",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration, e.g. with an extender; its clientConnection is filled in.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for data and logs, which is kept; default: a temporary one.",
)
@click.option(
    "--real-nodes",
    type=click.IntRange(1, MAXIMUM_NODES),
    help="Instead of fake nodes, this many with a kubelet and containers. Needs root. In a clone they have its image.",
)
@click.option(
    "--vm",
    is_flag=False,
    flag_value=DEFAULT_SYSTEM,
    type=click.Choice(list(SYSTEMS)),
    help=f"With --real-nodes: one more node, a virtual machine, which boots in minutes. --vm alone: {DEFAULT_SYSTEM}.",
)
def up(
    name: str,
    kubernetes: str | None,
    nodes: int,
    cpu: str,
    memory: str,
    nats: bool,
    scrape_interval: float,
    scheduler_configuration: Path | None,
    directory: Path | None,
    real_nodes: int | None,
    vm: str | None,
) -> None:
    """Start a cluster and run it until Ctrl-C or `down`. No process outlives this command."""
    if vm is not None and real_nodes is None:
        raise click.UsageError("--vm adds a virtual machine to real nodes: add --real-nodes 1")
    import asyncio

    import yaml

    from equipoise.testbed.api import ApiError
    from equipoise.testbed.binaries.build import BuildError, build
    from equipoise.testbed.binaries.toolchain import NoGoError
    from equipoise.testbed.cluster import Cluster, ClusterError
    from equipoise.testbed.objects import node
    from equipoise.testbed.processes.configuration import PrometheusConfiguration
    from equipoise.testbed.real_nodes.requirements import RealNodesError

    for other in running_clusters.running(running_clusters.default_state()):
        if other.name == name:
            raise click.ClickException(
                f"a cluster named {name} runs already (pid {other.pid}): stop it with "
                f"`equipoise testbed down {name}`, or give this one another --name"
            )
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    try:
        if real_nodes is not None:
            _real_nodes(name, real_nodes, machine=SYSTEMS[vm] if vm else None, kubernetes=kubernetes or "")
            return
        cluster = Cluster(
            binaries=build(kubernetes=kubernetes or ""),
            scheduler=yaml.safe_load(scheduler_configuration.read_text()) if scheduler_configuration else {},
            prometheus=PrometheusConfiguration(scrape_interval=scrape_interval),
            nats=nats,
            directory=None if directory is None else directory.absolute(),
        )
        with cluster:
            size: dict[str, Any] = {"cpu": cpu, "memory": memory}
            asyncio.run(cluster.add_nodes([node(f"node-{number}", **size) for number in range(nodes)]))
            with running_clusters.listed(name, cluster, nats=nats) as described:
                _table(["", f"up after {time.monotonic() - began:.1f} s"], _rows(described))
                click.echo(f"export KUBECONFIG={cluster.kubeconfig}")
                click.echo(f"equipoise report --prometheus {cluster.prometheus_url}")
                while True:
                    cluster.check()
                    time.sleep(CHECK_SECONDS)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    except (ApiError, BuildError, NoGoError, ClusterError, RealNodesError) as error:
        raise click.ClickException(str(error)) from error


def _real_nodes(name: str, number: int, *, machine: MachineSystem | None, kubernetes: str) -> None:
    """Run a cluster with real nodes until the first interrupt of this process, which cancels it."""
    import asyncio

    from equipoise.testbed.real_nodes.cluster import RealCluster, prepare

    clone = Path.cwd()
    prepared = prepare(clone if (clone / "Dockerfile").exists() else None, machine=machine, kubernetes=kubernetes)

    async def run(cluster: RealCluster) -> None:
        began = time.monotonic()
        async with cluster:
            with running_clusters.listed(name, cluster.cluster, nats=False) as described:
                _table(["", f"up after {time.monotonic() - began:.1f} s"], _rows(described))
                click.echo("It has a network of its own, which these programs run in:")
                click.echo(f"  {cluster.kubectl} get nodes\n  {cluster.helm} list --all-namespaces")
                click.echo(f"  {cluster.equipoise} report --prometheus {cluster.prometheus_url}")
                while True:
                    cluster.check()
                    await asyncio.sleep(CHECK_SECONDS)

    asyncio.run(run(RealCluster(prepared, number)))


@testbed.command()
@output_option
def status(output: str) -> None:
    """Show the clusters that run on this machine."""
    living = running_clusters.running(running_clusters.default_state())
    if output == "json":
        click.echo(json.dumps([asdict(cluster) for cluster in living], indent=1))
    elif living:
        _table(
            ["name", "pid", "API server", "Prometheus", "NATS", "kubeconfig"],
            [
                [
                    cluster.name,
                    str(cluster.pid),
                    cluster.api,
                    cluster.prometheus,
                    cluster.nats or "-",
                    cluster.kubeconfig,
                ]
                for cluster in living
            ],
        )
    else:
        click.echo("no cluster runs; start one with `equipoise testbed up`", err=True)


@testbed.command()
@click.argument("given", metavar="[NAME]", default="")
@click.option("--name", default="default", show_default=True, help="As of `up`.")
def down(given: str, name: str) -> None:
    """Stop a cluster that `up` keeps elsewhere."""
    name = given or name
    for cluster in running_clusters.running(running_clusters.default_state()):
        if cluster.name == name:
            os.kill(cluster.pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while running_clusters.process_start(cluster.pid) == cluster.started:
                if time.monotonic() > deadline:
                    raise click.ClickException(
                        f"the cluster {name} has not stopped after {STOP_SECONDS:g} s: "
                        f"`kill -9 {cluster.pid}` ends it with all its parts"
                    )
                time.sleep(0.05)
            click.echo(f"stopped {name}")
            return
    raise click.ClickException(f"no cluster named {name} runs; `equipoise testbed status` shows those that do")


def _rows(cluster: running_clusters.RunningCluster) -> list[list[str]]:
    rows = [
        ["name", cluster.name],
        ["API server", cluster.api],
        ["Prometheus", cluster.prometheus],
        ["NATS", cluster.nats],
        ["kubeconfig", cluster.kubeconfig],
        ["logs", f"{cluster.directory}/*.log"],
    ]
    return [row for row in rows if row[1]]


def _table(columns: list[str], rows: list[list[str]]) -> None:
    lines = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(map(str.ljust, line, widths)).rstrip())


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
