"""The five services on this machine against a cluster, under a supervisor, with a NATS server of their own."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.kubeconfig import Context
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.cli.setup.resources import create_resources
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.configuration import Logging, read_document, read_sections, to_document
from equipoise.runtime.process.health import Readiness
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.processes.loopback import PortBlock

Document = dict[str, Any]

POLL_INTERVAL = 1.0
"""Seconds between two reads of every service's readiness."""


def run_up(
    prometheus_url: str, context: Context, configuration: Path | None, *, evict: bool, confirmation: str | None
) -> None:
    """Until Ctrl-C, SIGTERM or SIGHUP.

    Raises InvalidInput, ConfigurationError, NoNatsServer, BusError and KubeError.
    """
    text = None if configuration is None else configuration.read_text()
    ports = PortBlock()
    try:
        document = complete_document(text, os.environ, prometheus_url, context, evict=evict, ports=ports)
        if evict:
            # Before the event loop starts: it would defer Ctrl-C at the prompt.
            _confirm(context, document["binder"]["limits"], confirmation)
        asyncio.run(_run(document, context))
    finally:
        ports.release()


async def _run(document: Document, context: Context) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    configure_logging(Logging(level="warning"), "up")
    with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
        directory = Path(name)
        async with embedded_server(directory / "nats") as nats_url:
            document["nats"] = {"url": nats_url}
            file = directory / "equipoise.yaml"
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            _print_summary(context, document, directory)
            await create_resources(file)
            health = {service: f"http://{_local_address(document[service]['health'])}" for service in SERVICES}
            async with Supervisor(
                configuration=file, directory=directory, health=health, report=click.echo
            ) as supervisor:
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(supervisor.watch())
                        tasks.create_task(_print_readiness(supervisor))
                finally:
                    click.echo("stopping")


def complete_document(
    text: str | None,
    environment: Mapping[str, str],
    prometheus_url: str,
    context: Context,
    *,
    evict: bool,
    ports: PortBlock,
) -> Document:
    """The whole configuration: options override environment variables, those the file, that the defaults.

    Addresses with their default value are replaced by a free port of the loopback interface; there the extender needs
    no TLS, and the files of an installation in a cluster do not exist. Raises ConfigurationError.
    """
    shared, own = read_sections({} if text is None else read_document(text), SERVICE_SETTINGS, environment)
    document = to_document(shared, own)
    document["kubernetes"] |= {"kubeconfig": context.files, "context": context.name}
    document["collector"]["prometheus"]["url"] = prometheus_url
    document["binder"]["evict"] = evict
    for service, setting in [*((service, "health") for service in SERVICES), ("scorer", "listen")]:
        if document[service][setting] == getattr(SERVICE_SETTINGS[service](), setting):
            document[service][setting] = f"127.0.0.1:{ports.take()}"
            if setting == "listen":
                document[service]["extender"]["tls"] = None
    sections = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    read_sections(sections, SERVICE_SETTINGS)
    return document


def _print_summary(context: Context, document: Document, directory: Path) -> None:
    nats_url, namespace = document["nats"]["url"], document["kubernetes"]["namespace"]
    scheme = "http" if document["scorer"]["extender"]["tls"] is None else "https"
    rows = {
        "context": f"{context.name}  (cluster {context.cluster} {context.server})".rstrip(),
        "evictions": "REAL" if document["binder"]["evict"] else "dry run (use --evict to evict pods)",
        "writes": f"annotations equipoise.dev/… on nodes and workloads; ledger and Leases in namespace {namespace}",
        "extender": f"{scheme}://{document['scorer']['listen']}/prioritize",
        "messages": f"equipoise tap --nats {nats_url}",
        "logs": f"{directory}/*.log",
    }
    for name, value in rows.items():
        click.echo(f"{name:<10} {value}")


async def _print_readiness(supervisor: Supervisor) -> None:
    """Print changes: a service is ready, or not ready, or its problems change."""
    before: dict[ServiceName, Readiness | None] = dict.fromkeys(SERVICES)
    while True:
        for service in SERVICES:
            now = await supervisor.readiness(service)
            for line in readiness_changes(service, before[service], now):
                click.echo(line)
            before[service] = now
        await asyncio.sleep(POLL_INTERVAL)


def readiness_changes(service: ServiceName, before: Readiness | None, now: Readiness | None) -> Iterator[str]:
    """One line for each change."""
    was_ready = before is not None and before.ready
    if now is None or not now.ready:
        if was_ready:
            reason = f"waiting for {', '.join(now.waiting_for)}" if now is not None else "no response from /readyz"
            yield f"{service} is no longer ready: {reason}"
        return
    if not was_ready:
        yield f"{service} is ready"
    known = before.problems if before is not None and was_ready else []
    yield from (f"{service}: {problem}" for problem in now.problems if problem not in known)
    yield from (f"{service}: resolved: {problem}" for problem in known if problem not in now.problems)


def _confirm(context: Context, limits: object, confirmation: str | None) -> None:
    """Require the name of the context, from the prompt or from --yes. Raises InvalidInput."""
    click.echo("Equipoise will evict pods.")
    click.echo(f"  cluster  {context.cluster} {context.server}".rstrip() + f"\n  context  {context.name}\n  limits")
    click.echo("".join(f"    {line}\n" for line in yaml.safe_dump(limits, sort_keys=False).splitlines()), nl=False)
    try:
        name = input("Type the name of the context to continue: ") if confirmation is None else confirmation
    except EOFError:
        raise InvalidInput("no confirmation: without a terminal use --yes with the name of the context") from None
    if name != context.name:
        raise InvalidInput(f"{name!r} is not the name of the context, {context.name!r}: nothing was started")


def _local_address(listen: str) -> str:
    """The address to connect to for a server that listens on `listen`."""
    host, _, port = listen.rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  compared, not bound
