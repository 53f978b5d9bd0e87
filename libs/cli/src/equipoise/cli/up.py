"""`equipoise up`: the five services on this machine against a cluster, under one supervisor with its own NATS."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from equipoise.cli.endings import WrongInput
from equipoise.cli.kubeconfig import Context
from equipoise.cli.preparation import prepare
from equipoise.cli.sections import SECTIONS
from equipoise.cli.supervisor import Supervisor
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.configuration import Logging, read_document, read_sections, to_document
from equipoise.runtime.process.health import Readiness
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.processes.ports import PortBlock

Document = dict[str, Any]

LOOK_SECONDS = 1.0
"""Between two questions to every service how it fares."""


def run_up(
    prometheus_url: str, context: Context, configuration: Path | None, *, evict: bool, confirmed: str | None
) -> None:
    """Until Ctrl-C, SIGTERM or the terminal's end.

    Raises WrongInput, ConfigurationError, and what NATS and the API server raise.
    """
    text = None if configuration is None else configuration.read_text()
    ports = PortBlock()
    try:
        document = document_of(text, os.environ, prometheus_url, context, evict=evict, ports=ports)
        if evict:
            # Before there is an event loop, which would keep Ctrl-C from the question.
            _confirm(context, document["binder"]["limits"], confirmed)
        asyncio.run(_run(document, context))
    finally:
        ports.release()


async def _run(document: Document, context: Context) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    configure_logging(Logging(level="warning"), "up")
    with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
        directory = Path(name)
        async with embedded_server(directory / "nats") as nats_url:
            document["nats"] = {"url": nats_url}
            file = directory / "equipoise.yaml"
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            _introduce(context, document, directory)
            await prepare(file)
            health = {service: f"http://{_reachable(document[service]['health'])}" for service in SERVICES}
            async with Supervisor(configuration=file, directory=directory, health=health, say=click.echo) as supervisor:
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(supervisor.watch())
                        tasks.create_task(_narrate(supervisor))
                finally:
                    click.echo("stopping")


def document_of(
    text: str | None,
    environment: Mapping[str, str],
    prometheus_url: str,
    context: Context,
    *,
    evict: bool,
    ports: PortBlock,
) -> Document:
    """Flags over variables over the file over defaults; an address left at its default is a free one of the loopback.

    Raises ConfigurationError.
    """
    shared, own = read_sections({} if text is None else read_document(text), SECTIONS, environment)
    document = to_document(shared, own)
    kubernetes = {"kubeconfig": context.files, "context": context.name}
    document["kubernetes"] |= kubernetes
    document["collector"]["prometheus"]["url"] = prometheus_url
    document["binder"]["evict"] = evict
    for service, setting in [*((service, "health") for service in SERVICES), ("scorer", "listen")]:
        if document[service][setting] == getattr(SECTIONS[service](), setting):
            document[service][setting] = f"127.0.0.1:{ports.take()}"
    read_sections({name: value for name, value in document.items() if name not in ("apiVersion", "kind")}, SECTIONS)
    return document


def _introduce(context: Context, document: Document, directory: Path) -> None:
    nats_url, namespace = document["nats"]["url"], document["kubernetes"]["namespace"]
    evictions = "REAL" if document["binder"]["evict"] else "dry run (nothing is evicted; --evict does it really)"
    rows = {
        "context": f"{context.name}  (cluster {context.cluster} {context.server})".rstrip(),
        "evictions": evictions,
        "writes": f"annotations equipoise.dev/… on nodes and workloads; ledger and Leases in namespace {namespace}",
        "extender": f"http://{document['scorer']['listen']}/prioritize",
        "watch it": f"equipoise tap --nats {nats_url}",
        "logs": f"{directory}/*.log",
    }
    for name, value in rows.items():
        click.echo(f"{name:<10} {value}")


async def _narrate(supervisor: Supervisor) -> None:
    """Say what changes: a service is ready, or has a problem, or has it no more."""
    before: dict[ServiceName, Readiness | None] = dict.fromkeys(SERVICES)
    while True:
        for service in SERVICES:
            now = await supervisor.readiness(service)
            for line in news(service, before[service], now):
                click.echo(line)
            before[service] = now
        await asyncio.sleep(LOOK_SECONDS)


def news(service: ServiceName, before: Readiness | None, now: Readiness | None) -> Iterator[str]:
    """What is new about a service, a line each."""
    was_ready = before is not None and before.ready
    if now is None or not now.ready:
        if was_ready:
            waiting = ", ".join(now.waiting_for) if now is not None else "its answer"
            yield f"{service} is not ready any more: it waits for {waiting}"
        return
    if not was_ready:
        yield f"{service} is ready"
    known = before.problems if before is not None and was_ready else []
    yield from (f"{service}: {problem}" for problem in now.problems if problem not in known)
    yield from (f"{service}: over: {problem}" for problem in known if problem not in now.problems)


def _confirm(context: Context, limits: object, confirmed: str | None) -> None:
    """Really evicting takes the context's name, typed or given with --yes. Raises WrongInput."""
    click.echo("Equipoise will evict pods.")
    click.echo(f"  cluster  {context.cluster} {context.server}".rstrip() + f"\n  context  {context.name}\n  limits")
    click.echo("".join(f"    {line}\n" for line in yaml.safe_dump(limits, sort_keys=False).splitlines()), nl=False)
    try:
        answer = input("Type the context's name to go on: ") if confirmed is None else confirmed
    except EOFError:
        raise WrongInput("nobody answered: without a terminal give the context's name with --yes") from None
    if answer != context.name:
        raise WrongInput(f"{answer!r} is not the context's name, {context.name!r}: nothing was started")


def _reachable(listen: str) -> str:
    """Where to ask what listens on `listen`."""
    host, _, port = listen.rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  compared, not bound
