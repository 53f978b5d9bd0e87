"""Runs checks concurrently and prints their findings."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.access import connect_problem, forwarded
from equipoise.cli.doctor.checks import CHECKS, Check
from equipoise.cli.doctor.environment import Diagnosis, Environment, Finding
from equipoise.cli.doctor.finding_lines import MAX_ALIKE, finding_lines
from equipoise.cli.effective.adopted import Adopted, adopted_settings
from equipoise.cli.effective.installed import installed_settings
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import Settings
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.options import BusOptions, Output
from equipoise.cli.progress import Activity, shown_activity
from equipoise.cli.prometheus.access import reached_prometheus
from equipoise.cli.service_settings import AllSettings, all_settings, read_installed
from equipoise.cli.terminal import listed, print_result
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.nats.connection import CommandNats
from equipoise.runtime.configuration import Kubernetes, Logging, Nats
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

CHECK_TIMEOUT = 120.0
"""Seconds that one check may take."""

MAX_RUNNING = 3
"""The number of checks that are named while they run."""

URL_SETTINGS = {"prometheus": "collector.prometheus.url", "load-watcher": "collector.loadWatcher.url"}
"""The setting with the URL of each source of metrics."""


def settings_for(
    configuration: Path | None,
    environment: Mapping[str, str],
    *,
    prometheus_url: str | None,
    nats: Mapping[str, Any],
    cluster: Kubernetes | None,
) -> AllSettings:
    """Options override environment variables, these the file, and the file the defaults.

    `nats`: values that are not None override those of the section. Raises ConfigurationError, and ValueError for
    invalid options.
    """
    settings = all_settings(read_installed(configuration, environment), environment)
    shared = settings.shared
    given = {name: value for name, value in nats.items() if value is not None}
    server = CommandNats(**msgspec.structs.asdict(shared.nats) | given, client="doctor")
    shared = msgspec.structs.replace(shared, nats=server, kubernetes=cluster or shared.kubernetes)
    settings = msgspec.structs.replace(settings, shared=shared)
    if prometheus_url is None:
        return settings
    prometheus = msgspec.structs.replace(settings.collector.prometheus, url=prometheus_url)
    collector = msgspec.structs.replace(settings.collector, prometheus=prometheus)
    return msgspec.structs.replace(settings, collector=collector)


async def run_doctor(
    settings: AllSettings,
    checks: Mapping[str, Check] = CHECKS,
    *,
    services_nats: Nats | None = None,
    cluster_problem: str = "",
    through_cluster: BusOptions | None = None,
    find_prometheus: bool = False,
    file: Settings | None = None,
    prometheus_url: str | None = None,
    output: Output,
) -> bool:
    """Print the diagnosis; True if it is healthy.

    `services_nats`: the section `nats` of the configuration file. `cluster_problem`: why there is no connection to the
    API server. `through_cluster`: if given, NATS is reached through the API server; Secrets supply the password and the
    certificates that these options do not name. `find_prometheus`: whether to find the Prometheus of the cluster if the
    URL is the default. `file`: the sections of the configuration file. Without a file the settings of the running
    services are checked, with `prometheus_url` if it is given.
    """
    # An unavailable server is a finding: client libraries need not log it too.
    configure_logging(Logging(level="error"), "doctor")
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        activity = await stack.enter_async_context(shown_activity("connecting"))
        no_cluster = KubeError(0, "NoCluster", cluster_problem)
        environment = Environment(
            settings=settings, clock=clock, kube=no_cluster, services_nats=services_nats, file=file
        )
        if not cluster_problem:
            try:
                api = await stack.enter_async_context(connect_kube(settings.shared.kubernetes, "doctor", clock))
            except KubeError as error:
                environment.kube = error
            else:
                environment.kube = api
                await _reach_nats(environment, stack, through_cluster)
        if not environment.nats_problem and (problem := await connect_problem(environment.settings.shared.nats)):
            environment.nats_problem = f"{problem}; give another address with --nats URL"
        await _read_effective(environment, prometheus_url)
        if not isinstance(environment.kube, KubeError) and not environment.unconfirmed_url:
            await _reach_prometheus(environment, stack, find=find_prometheus)
        diagnosis = await diagnose(environment, checks, activity)
    print_result(diagnosis, show, output=output)
    return diagnosis.healthy


async def _reach_nats(environment: Environment, stack: AsyncExitStack, through_cluster: BusOptions | None) -> None:
    """Reach NATS through the API server, where that is the way; else the environment has the reason."""
    shared = environment.settings.shared
    if through_cluster is None:
        return
    try:
        server = await stack.enter_async_context(forwarded(through_cluster, shared.kubernetes))
    except CommandFailed as error:
        environment.nats_problem = error.message
    else:
        shared = msgspec.structs.replace(shared, nats=server)
        environment.settings = msgspec.structs.replace(environment.settings, shared=shared)


async def _read_effective(environment: Environment, prometheus_url: str | None) -> None:
    """What services publish; without a file, it is what is checked."""
    nats = environment.settings.shared.nats
    if environment.nats_problem:
        environment.effective = f"not known: {environment.nats_problem}"
        return
    try:
        environment.effective = await read_effective(nats, environment.clock)
    except BusError as error:
        environment.effective = f"not known: {error}"
        return
    if environment.file is not None:
        return
    installed, unread = ({}, "") if prometheus_url is not None else await _installed_settings(environment)
    own, now = environment.settings, environment.clock.now()
    adopted = adopted_settings(own, environment.effective, now, tuple(installed.values()))
    environment.settings = adopted.settings
    if adopted.services:
        _note(f"checking what runs: the published configuration of {', '.join(adopted.services)}")
    for problem in adopted.unreadable:
        _note(f"not checked, as this version cannot read it: {problem}")
    if prometheus_url is not None:
        return
    source = adopted.settings.collector.source
    if unused := tuple(setting for setting in adopted.private if setting.startswith("collector.prometheus.")):
        environment.unused_credentials = unused
        _note(
            f"not used: {', '.join(unused)} of the collector. Files and credentials are only taken from --config FILE"
        )
    url = _source_url(adopted.settings.collector)
    place = next((place for place, values in installed.items() if url and _source_url(values.collector) == url), "")
    if place and adopted.settings.collector.names_source:
        _note(f"{source} {url}, which the collector publishes and the {place} has")
    environment.unconfirmed_url = _unconfirmed(adopted, installed, unread)


def _unconfirmed(adopted: Adopted, installed: Mapping[str, AllSettings], unread: str) -> str:
    """Why the URL of the source of metrics is not used; empty if it is. `unread`: why nothing is installed."""
    setting = URL_SETTINGS.get(adopted.settings.collector.source, "")
    if (url := adopted.refused_urls.get(setting)) is None:
        return ""
    others = [f"the {place} has {_source_url(each.collector)}" for place, each in installed.items()]
    why = unread or "; ".join(others[:MAX_ALIKE]) or "no pod of a collector mounts a ConfigMap with a configuration"
    return f"not asked: only the message of a collector on the bus states that {setting} is {url} ({why})"


def _source_url(settings: CollectorSettings) -> str:
    """The URL of the source that is used; empty if it has none."""
    urls = {"prometheus": settings.prometheus.url, "load-watcher": settings.load_watcher.url}
    return urls.get(settings.source, "")


async def _installed_settings(environment: Environment) -> tuple[Mapping[str, AllSettings], str]:
    """The settings of the installation, by where they are from; or why they are not known."""
    try:
        return await installed_settings(environment.api(), environment.settings.shared.kubernetes.namespace), ""
    except KubeError as error:
        return {}, f"the configuration of the installation cannot be read: {error}"


async def _reach_prometheus(environment: Environment, stack: AsyncExitStack, *, find: bool) -> None:
    """Reach Prometheus through the API server, where that is the way; else the environment has the reason."""
    kubernetes, collector = environment.settings.shared.kubernetes, environment.settings.collector
    if collector.source != "prometheus" or not (find or collector.prometheus.url != PrometheusSettings().url):
        return
    api: Any = environment.kube
    try:
        prometheus = await stack.enter_async_context(
            reached_prometheus(collector.prometheus, api, in_pod=not kubernetes.kubeconfig, note=_note)
        )
    except (CommandFailed, InvalidInput, KubeError) as error:
        environment.prometheus_problem = error.message
    else:
        environment.prometheus_was_found = not collector.names_source
        collector = msgspec.structs.replace(collector, prometheus=prometheus)
        environment.settings = msgspec.structs.replace(environment.settings, collector=collector)


def _note(text: str) -> None:
    click.echo(text, err=True)


async def diagnose(
    environment: Environment, checks: Mapping[str, Check] = CHECKS, activity: Activity | None = None
) -> Diagnosis:
    """The findings of every check, in the order of the table. `activity`: shows which checks have not ended."""
    running = dict.fromkeys(checks)

    def show_running() -> None:
        if activity is not None and running:
            ended = len(checks) - len(running)
            activity.begin(f"{ended} of {len(checks)} checks, waiting for {listed(list(running), MAX_RUNNING)}")

    async def result(name: str, check: Check) -> list[Finding]:
        findings = await _result(check, environment)
        del running[name]
        show_running()
        return findings

    show_running()
    results = await asyncio.gather(*(result(name, check) for name, check in checks.items()))
    findings = [
        msgspec.structs.replace(finding, check=name)
        for name, found in zip(checks, results, strict=True)
        for finding in found
    ]
    return Diagnosis(healthy=all(finding.state != "error" for finding in findings), findings=findings)


async def _result(check: Check, environment: Environment) -> list[Finding]:
    """An error of the check itself is a finding too, and does not affect other checks."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            return await check(environment)
    except TimeoutError:
        return [Finding("unknown", "this check", f"no result within {CHECK_TIMEOUT:g} s")]
    except Exception as error:
        fix = "this is a bug in Equipoise: please report it with this line"
        return [Finding("unknown", "this check", f"failed: {type(error).__name__}: {error}", fix)]


def show(diagnosis: Diagnosis, to: Console) -> None:
    """Every check, then the number of findings."""
    for check, findings in groupby(diagnosis.findings, key=lambda finding: finding.check):
        to.print(Text(check, style="bold"))
        for line in finding_lines(list(findings)):
            to.print(line)
    to.print()
    to.print(_summary(diagnosis))


def _summary(diagnosis: Diagnosis) -> Text:
    counts = Counter(finding.state for finding in diagnosis.findings)
    errors, warnings = (f"{counts[state]} {state}{'' if counts[state] == 1 else 's'}" for state in ("error", "warning"))
    text = f"{errors}, {warnings}, {counts['unknown']} unknown"
    return Text(text, style="bold green" if diagnosis.healthy else "bold red")
