"""The services on this machine against a cluster, under a supervisor, with a NATS server of their own."""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import yaml

from equipoise.cli.cluster_access.kubeconfig import ClusterName, Context
from equipoise.cli.cluster_access.leases import held_leases, held_text
from equipoise.cli.cluster_now.reading import detected_profile
from equipoise.cli.commands.setup import create_resources
from equipoise.cli.effective.settings import default_settings, to_sections
from equipoise.cli.exit_codes import CommandFailed, InvalidInput, cancel_on_signals
from equipoise.cli.prometheus.access import reached_prometheus
from equipoise.cli.prometheus.profiles import configured_profile
from equipoise.cli.service_settings import SERVICE_SETTINGS, all_settings
from equipoise.cli.up.running_up import RunningUp, process_start, recorded
from equipoise.cli.up.supervisor import Supervisor
from equipoise.cli.up.turn import DISPLACED_AFTER, Displaced, work_in_turn
from equipoise.cli.up.unused_settings import unused_settings
from equipoise.collector.settings import PrometheusSettings
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.bus.permissions import USERS, User, permission_file
from equipoise.runtime.configuration import Logging, read_document, read_sections, to_document, without_header
from equipoise.runtime.kubernetes.client import NODES, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.http.api_server import ApiServer
from equipoise.runtime.process.bounded_files import read_bounded_text
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Readiness
from equipoise.runtime.process.logging import configure_logging
from equipoise.testbed.processes.loopback import PortBlock

Document = dict[str, Any]

POLL_INTERVAL = 1.0
"""Seconds between two reads of every service's readiness."""


WITHOUT_ANNOTATIONS = tuple(service for service in SERVICES if service != "annotator")


def run_up(
    prometheus_url: str | None,
    context: Context,
    configuration: Path | None,
    *,
    annotate: bool,
    evict: bool,
    confirmation: str | None,
) -> None:
    """Run the services until Ctrl-C, SIGTERM or SIGHUP.

    Raises InvalidInput, ConfigurationError, NoNatsServer, BusError and KubeError.
    """
    text = None if configuration is None else read_bounded_text(configuration)
    ports = PortBlock()
    try:
        document = complete_document(text, os.environ, prometheus_url, context, evict=evict, ports=ports)
        if evict:
            _require_source(document)
            # Before the event loop starts: it would defer Ctrl-C at the prompt.
            _confirm(context, document["binder"]["limits"], confirmation)
        detect = configured_profile({} if text is None else read_document(text), os.environ) is None
        services = SERVICES if annotate else WITHOUT_ANNOTATIONS
        given = to_sections({} if text is None else read_document(text), os.environ)
        unused = list(unused_settings(given, without_header(document), default_settings(), services))
        asyncio.run(_run(document, context, services, unused, configuration, detect=detect))
    finally:
        ports.release()


async def _run(
    document: Document,
    context: Context,
    services: Sequence[ServiceName],
    unused: Sequence[str],
    configuration: Path | None,
    *,
    detect: bool,
) -> None:
    """Run the services with this configuration.

    `unused`: lines about settings without effect. `configuration`: the file that was given. `detect`: whether to detect
    the profile, because none is configured.
    """
    cancel_on_signals()
    configure_logging(Logging(format="console", level="warning"), "up")
    cluster, clock = all_settings(without_header(document)).shared.kubernetes, SystemClock()
    with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
        directory = Path(name)
        passwords = create_passwords(directory)
        async with (
            embedded_server(directory / "nats", configuration=permission_file(passwords), restarts=True) as nats_url,
            connect_kube(cluster, "up", clock) as kube,
            _prometheus_reached(document, kube) as prometheus,
        ):
            document["nats"] = {"url": nats_url}
            metrics = prometheus + await set_profile(document, detect=detect)
            file = directory / "equipoise.yaml"
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            for line in summary(context, document, directory, services, metrics, unused):
                click.echo(line)
            await create_resources(file, nats_access(directory, "setup"))
            running = this_process(context, document, file, configuration, clock.now())
            health = {service: f"http://{_local_address(document[service]['health'])}" for service in services}

            async def work() -> None:
                supervisor = Supervisor(
                    configuration=file,
                    directory=directory,
                    health=health,
                    services=services,
                    report=click.echo,
                    variables=lambda service: nats_access(directory, service),
                )
                with recorded(running, os.environ):
                    async with supervisor, asyncio.TaskGroup() as tasks:
                        tasks.create_task(supervisor.watch())
                        tasks.create_task(_print_readiness(supervisor, services, kube, cluster.namespace, clock))

            try:
                await work_in_turn(
                    kube,
                    clock,
                    namespace=cluster.namespace,
                    identity=f"{socket.gethostname()}-{os.getpid()}",
                    services=services,
                    work=work,
                    report=click.echo,
                )
            finally:
                click.echo("stopping")


def this_process(context: Context, document: Document, file: Path, configuration: Path | None, now: float) -> RunningUp:
    """What other commands need to reach the services.

    `file`: the complete configuration, which the services read. `configuration`: the file that was given.
    """
    process = os.getpid()
    return RunningUp(
        cluster=ClusterName(context=context.name, cluster=context.cluster, server=context.server),
        namespace=document["kubernetes"]["namespace"],
        process=process,
        process_start=process_start(process) or "",
        nats_url=document["nats"]["url"],
        user="tap",
        password_file=str(file.parent / "passwords" / "tap"),
        configuration="" if configuration is None else str(configuration.resolve()),
        services_configuration=str(file),
        started_at=now,
    )


@asynccontextmanager
async def _prometheus_reached(document: Document, kube: ApiServer) -> AsyncIterator[str]:
    """Set the URL of Prometheus in the document, and yield the URL for the summary; "" with another source."""
    collector = all_settings(without_header(document)).collector
    if collector.source != "prometheus":
        yield ""
        return
    async with reached_prometheus(collector.prometheus, kube, in_pod=False, note=click.echo) as prometheus:
        document["collector"]["prometheus"]["url"] = prometheus.url
        yield f"{prometheus.shown_url}, "


def create_passwords(directory: Path) -> dict[User, str]:
    """New passwords of all users of NATS, each also in a file.

    Other users of this machine can reach the port of NATS.
    """
    folder = directory / "passwords"
    folder.mkdir(mode=0o700)
    passwords = {user: secrets.token_urlsafe(24) for user in USERS}
    for user, password in passwords.items():
        (folder / user).write_text(password)
    return passwords


def nats_access(directory: Path, user: User) -> dict[str, str]:
    """The variables with which a service connects as its user."""
    file = str(directory / "passwords" / user)
    return {"EQUIPOISE_NATS__USER": user, "EQUIPOISE_NATS__PASSWORD_FILE": file}


def complete_document(
    text: str | None,
    environment: Mapping[str, str],
    prometheus_url: str | None,
    context: Context,
    *,
    evict: bool,
    ports: PortBlock,
) -> Document:
    """The complete configuration. Options override environment variables, which override the file and its defaults.

    Default addresses are replaced by free ports of the loopback interface. The extender then has no TLS, which it does
    not need there, and whose files do not exist outside of a cluster. Raises ConfigurationError.
    """
    shared, own = read_sections({} if text is None else read_document(text), SERVICE_SETTINGS, environment)
    document = to_document(shared, own)
    document["kubernetes"] |= {"kubeconfig": context.files, "context": context.name}
    if prometheus_url is not None:
        document["collector"]["prometheus"]["url"] = prometheus_url
    document["binder"]["evict"] = evict
    for service, setting in [*((service, "health") for service in SERVICES), ("scorer", "listen")]:
        if document[service][setting] == getattr(SERVICE_SETTINGS[service](), setting):
            document[service][setting] = f"127.0.0.1:{ports.take()}"
            if setting == "listen":
                document[service]["extender"]["tls"] = None
    read_sections(without_header(document), SERVICE_SETTINGS)
    return document


async def set_profile(document: Document, *, detect: bool) -> str:
    """Set the profile that fits Prometheus in the document.

    Returns a text about the profile and how it was chosen.
    """
    settings = all_settings(without_header(document))
    prometheus, load, clock = settings.collector.prometheus, settings.shared.load, SystemClock()
    if settings.collector.source != "prometheus":
        return settings.collector.source
    if not detect:
        return f"profile {prometheus.profile}"
    try:
        async with connect_kube(settings.shared.kubernetes, "up", clock) as kube:
            nodes = await kube.list(NODES)
        profile = await detected_profile(settings.collector, load, nodes, clock)
    except (CommandFailed, KubeError) as error:
        return f"profile {prometheus.profile}, which was not detected: {error.message}"
    document["collector"]["prometheus"]["profile"] = profile
    return f"profile {profile} (detected)"


def summary(
    context: Context,
    document: Document,
    directory: Path,
    services: Sequence[ServiceName],
    metrics: str,
    unused: Sequence[str] = (),
) -> Iterator[str]:
    """The lines about the cluster, what is written to it, where messages and logs are, and settings without effect."""
    nats_url, namespace = document["nats"]["url"], document["kubernetes"]["namespace"]
    scheme = "http" if document["scorer"]["extender"]["tls"] is None else "https"
    rows = {
        "context": f"{context.name}  (cluster {context.cluster} {context.server})".rstrip(),
        "evictions": "REAL" if document["binder"]["evict"] else "dry run (use --evict to evict pods)",
        "annotations": "equipoise.dev/… on nodes and workloads"
        if "annotator" in services
        else "none are written (use --annotate to annotate nodes and workloads)",
        "metrics": metrics,
        "writes": f"ledger and Leases in namespace {namespace}",
        "extender": f"{scheme}://{document['scorer']['listen']}/prioritize",
        "commands": "equipoise status, plan, explain, top and dashboard find this process: they need no --nats",
        "messages": f"equipoise tap --nats {nats_url} --user tap --password-file {directory}/passwords/tap",
        "logs": f"{directory}/*.log",
    }
    yield from (f"{name:<11} {value}" for name, value in rows.items())
    yield from (f"{'not used':<11} {line}" for line in unused)


async def _print_readiness(
    supervisor: Supervisor, services: Sequence[ServiceName], kube: Kube, namespace: str, clock: Clock
) -> None:
    """Print when a service becomes ready or not ready, when its problems change, and when another replica leads.

    Raises Displaced when the services of another Equipoise keep a Lease.
    """
    before: dict[ServiceName, Readiness | None] = dict.fromkeys(services)
    standby = dict.fromkeys(services, "")
    standby_since: dict[ServiceName, float] = {}
    while True:
        for service in services:
            now = await supervisor.readiness(service)
            for line in readiness_changes(service, before[service], now):
                click.echo(line)
            before[service] = now
            is_standby = now is not None and now.ready and now.leading is False
            line, known = await standby_line(kube, namespace, service, clock) if is_standby else ("", True)
            if line and line != standby[service]:
                click.echo(line)
            if standby[service] and now is not None and now.leading:
                click.echo(f"{service} leads")
            # A standby keeps its line while nobody holds its Leases, so that it is reported when it leads.
            standby[service] = line or (standby[service] if is_standby else "")
            if not (line and known):
                standby_since.pop(service, None)
            elif clock.monotonic() - standby_since.setdefault(service, clock.monotonic()) > DISPLACED_AFTER:
                raise Displaced(line)
        await asyncio.sleep(POLL_INTERVAL)


async def standby_line(kube: Kube, namespace: str, service: ServiceName, clock: Clock) -> tuple[str, bool]:
    """A line about who holds the Leases for which a ready service waits, and whether the holder is known.

    The line is empty if nobody holds them.
    """
    try:
        held = await held_leases(kube, namespace, service, clock)
    except KubeError as error:
        return f"{service} is a standby; who holds its Lease is unknown: {error}", False
    if not held:
        return "", True
    return f"{service} is a standby, another Equipoise works on this cluster: {held_text(held)}", True


def readiness_changes(service: ServiceName, before: Readiness | None, now: Readiness | None) -> Iterator[str]:
    """One line for each change of readiness and problems."""
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


def _require_source(document: Document) -> None:
    """Require a configured source of metrics, because any tenant may name a Service `prometheus`.

    Raises InvalidInput.
    """
    collector = document["collector"]
    if collector["source"] == "prometheus" and collector["prometheus"]["url"] == PrometheusSettings().url:
        raise InvalidInput(
            "pods would be evicted by what a Prometheus measures that was only found in the cluster: name it with "
            "--prometheus URL (without --evict, `equipoise up` prints which one it finds)"
        )


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
