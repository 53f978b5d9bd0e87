"""Checks whether an installation would fail or have no effect, and runs Helm."""

import os
import shlex
import shutil
from collections.abc import Awaitable, Collection, Iterable
from pathlib import Path

import click
import msgspec

from equipoise.cli.cluster_access.kubeconfig import cluster_name
from equipoise.cli.doctor.checks.versions import kubernetes_finding
from equipoise.cli.doctor.environment import Finding
from equipoise.cli.doctor.finding_lines import finding_lines
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.helm import run_helm
from equipoise.cli.install.existing_secrets import existing_secrets
from equipoise.cli.install.given_values import given_values
from equipoise.cli.install.named_objects import missing_objects
from equipoise.cli.prepare.created_objects import FILE, stored_source
from equipoise.cli.prepare.metrics_server import has_metrics_server
from equipoise.cli.prepare.storage import missing_storage
from equipoise.cli.prometheus.trusted import Servers, known_servers, names_of
from equipoise.cli.terminal import result_console
from equipoise.contracts.kubernetes.objects.cluster import ResourceQuota
from equipoise.contracts.kubernetes.quantity import magnitude
from equipoise.runtime.configuration import ConfigurationError, Kubernetes, Logging, read_document
from equipoise.runtime.configuration.discovered import names_source
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, LEASES, QUOTAS, Forbidden, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.installation import other_installations
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

RELEASE = "equipoise"
TIMEOUT = "5m"
JOB_COUNT = "count/jobs.batch"
"""The name of the number of Jobs in a ResourceQuota."""

JOBS = 2
"""`equipoise-prepare-check` and `equipoise-prepare`."""

IMAGE = frozenset({"image.registry", "image.repository", "image.digest", "global.imageRegistry"})
STORAGE = frozenset({"nats.enabled", "nats.persistence.enabled", "nats.persistence.storageClass"})
CONFIGURATION = "equipoise"
"""The ConfigMap of the chart with the configuration of the services."""

SOURCE = frozenset({"config.collector.source", "config.collector.prometheus.url"})
"""The values each of which answers what a check asks."""

NO_IMAGE = Finding(
    "warning",
    "image",
    "the chart of a clone names no registry, and no image is published: nodes would need it already",
    "build one, push it, and add --set image.registry=REGISTRY (docs/install.md, Install with kustomize, step 1)",
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed: the arguments of Helm."""

    chart: str
    values: list[str]
    settings: list[str]


def helm_command(request: Request, cluster: Kubernetes) -> list[str]:
    """`helm upgrade --install` in this cluster. An upgrade keeps earlier values that it does not set."""
    command = ["helm", "upgrade", "--install", RELEASE, request.chart]
    command += ["--namespace", cluster.namespace, "--create-namespace", "--wait", "--timeout", TIMEOUT]
    command.append("--reset-then-reuse-values")
    command += (word for file in request.values for word in ("--values", file))
    command += (word for setting in request.settings for word in ("--set", setting))
    return command + (["--kube-context", cluster.context] if cluster.context else [])


async def run_install(cluster: Kubernetes, request: Request, *, confirmed: bool) -> None:
    """Install the chart, or print what would be done unless it is confirmed. Raises KubeError and CommandFailed."""
    configure_logging(Logging(level="error"), "install")
    clock = SystemClock()
    async with connect_kube(cluster, "install", clock) as kube:
        findings = await checks(kube, request, cluster.namespace, clock)
    click.echo(f"cluster: {cluster_name(cluster, os.environ)}, namespace {cluster.namespace}")
    for line in finding_lines(findings):
        result_console().print(line)
    command = helm_command(request, cluster)
    if any(finding.state == "error" for finding in findings):
        raise CommandFailed("not installed: correct the errors above first")
    if not confirmed:
        click.echo(f"--yes runs: {shlex.join(command)}")
        click.echo(
            "an upgrade keeps the values of the installed release that are not given here; needs Helm 3.14 or newer"
        )
        return
    if shutil.which("helm") is None:
        raise CommandFailed(f"there is no program helm here: install it, and run `{shlex.join(command)}`")
    await run_helm(command, cluster.kubeconfig)
    async with connect_kube(cluster, "install", clock) as kube:
        if reason := await used_source(kube, cluster.namespace):
            click.echo(f"source of metrics: {reason}")
    click.echo("next: `equipoise doctor` checks the installation, `equipoise report` shows what is uneven")


async def used_source(kube: Kube, namespace: str) -> str:
    """Why the services use the source of metrics that was found, or none; empty if the values name one, or if this
    cannot be read."""
    try:
        stored = await stored_source(kube, namespace)
        configuration = await kube.get(CONFIG_MAPS, CONFIGURATION, namespace)
        is_configured = names_source(read_document(configuration.data.get(FILE, "")))
    except (KubeError, ConfigurationError):
        return ""  # the chart is installed all the same
    return "" if stored is None or is_configured else stored.reason


async def checks(kube: Kube, request: Request, namespace: str, clock: Clock) -> list[Finding]:
    """The findings of all checks before an installation. Raises KubeError and InvalidInput."""
    given = given_values(request.values, request.settings)
    findings = [kubernetes_finding(await kube.server_version())]
    findings += await _installations(kube, request, given, namespace, clock)
    findings += await _permitted("storage", _storage(kube, given, namespace))
    findings += await _permitted("secret", existing_secrets(kube, namespace, given, kube.server_time(clock.now())))
    findings += await _permitted("named objects", missing_objects(kube, namespace, given))
    findings += await _permitted("quota", _quotas(kube, namespace))
    if SOURCE.isdisjoint(given):
        findings += await _permitted("source of metrics", _source(kube))
    return findings


async def _permitted(subject: str, check: Awaitable[list[Finding]]) -> list[Finding]:
    """The findings of a check. If this user lacks a permission that it needs, its result is unknown."""
    try:
        return await check
    except Forbidden as error:
        return [_not_checked(subject, error)]


def _not_checked(subject: str, error: Forbidden) -> Finding:
    return Finding("unknown", subject, f"not checked: {error.message}")


async def _installations(
    kube: Kube, request: Request, given: Collection[str], namespace: str, clock: Clock
) -> list[Finding]:
    """Findings about other installations, and about the image if this is the first one, or if that is not known."""
    findings = []
    try:
        leases = await kube.list(LEASES, field_selector=f"metadata.name={DESCHEDULER_LEASE}")
    except Forbidden as error:
        leases = []
        findings.append(_not_checked("installation", error))
    for other in other_installations(leases, namespace, kube.server_time(clock.now())):
        message = f"another installation works in namespace {other.namespace}: this one would write nothing"
        fix = f"run `equipoise uninstall -n {other.namespace}` first"
        findings.append(Finding("error", "installation", message, fix))
    upgrade = any(lease.metadata.namespace == namespace for lease in leases)  # keeps earlier values
    if _of_clone(request) and IMAGE.isdisjoint(given) and not upgrade:
        findings.append(NO_IMAGE)
    return findings


async def _storage(kube: Kube, given: Collection[str], namespace: str) -> list[Finding]:
    problem = await missing_storage(kube, namespace) if STORAGE.isdisjoint(given) else ""
    return [Finding("warning", "storage", problem)] if problem else []


async def _quotas(kube: Kube, namespace: str) -> list[Finding]:
    try:
        problem = job_quota_problem(await kube.list(QUOTAS, namespace))
    except Forbidden as error:
        return [Finding("warning", "quota", f"Helm lists the quotas, too, and would fail: {error.message}")]
    return [Finding("warning", "quota", problem)] if problem else []


async def _source(kube: Kube) -> list[Finding]:
    servers = await known_servers(kube)
    return [source_finding(servers, metrics_server=await has_metrics_server(kube))]


def _of_clone(request: Request) -> bool:
    """Whether the chart is a folder: a packaged one of a release names its image."""
    return Path(request.chart).is_dir()


def job_quota_problem(quotas: Iterable[ResourceQuota]) -> str:
    """Why a quota would refuse a Job of the chart, and what to do; empty if none would."""
    for quota in quotas:
        hard, used = (amounts.get(JOB_COUNT) for amounts in (quota.status.hard, quota.status.used))
        try:
            refuses = hard is not None and magnitude(used or "0") + JOBS > magnitude(hard)
        except ValueError:
            return f"whether ResourceQuota {quota.metadata.name} has room for {JOBS} Jobs cannot be read"
        if refuses:
            return (
                f"ResourceQuota {quota.metadata.name} allows {JOB_COUNT} {hard}, of which {used or '0'} exist: Helm "
                f"creates {JOBS} at once. Raise the quota, or delete Jobs that have ended"
            )
    return ""


def source_finding(servers: Servers, *, metrics_server: bool) -> Finding:
    """The source of metrics that the Job equipoise-prepare will choose, unless the values name a source."""
    if len(servers.trusted) == 1:
        return Finding("ok", "source of metrics", f"Prometheus {names_of(servers.trusted)}{servers.not_used}")
    trusted = f"several Prometheus servers: {names_of(servers.trusted)}" if servers.trusted else "no Prometheus"
    fallback = (
        "metrics-server would be used, with short windows only" if metrics_server else "nothing would be measured"
    )
    fix = "set config.collector.prometheus.url and config.collector.prometheus.profile"
    return Finding("warning", "source of metrics", f"{trusted}{servers.not_used}: {fallback}", fix)
