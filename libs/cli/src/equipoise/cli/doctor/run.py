"""Runs all checks concurrently and prints their findings."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from equipoise.cli.doctor.checks import CHECKS, Check
from equipoise.cli.doctor.environment import Diagnosis, Environment, Finding
from equipoise.cli.doctor.text import show
from equipoise.cli.service_settings import AllSettings, all_settings, read_file
from equipoise.cli.terminal import print_result
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

CHECK_TIMEOUT = 120.0
"""Seconds."""


def settings_for(
    configuration: Path | None,
    environment: Mapping[str, str],
    *,
    prometheus_url: str | None,
    nats: Mapping[str, str | None],
    cluster: Kubernetes | None,
) -> AllSettings:
    """Options override environment variables, those the file, that the defaults.

    `nats`: values that are not None override those of the section. Raises ConfigurationError, and ValueError for
    invalid options.
    """
    settings = all_settings(read_file(configuration), environment)
    shared = settings.shared
    server = msgspec.structs.replace(shared.nats, **{name: value for name, value in nats.items() if value is not None})
    shared = msgspec.structs.replace(shared, nats=server, kubernetes=cluster or shared.kubernetes)
    settings = msgspec.structs.replace(settings, shared=shared)
    if prometheus_url is None:
        return settings
    prometheus = msgspec.structs.replace(settings.collector.prometheus, url=prometheus_url)
    collector = msgspec.structs.replace(settings.collector, prometheus=prometheus)
    return msgspec.structs.replace(settings, collector=collector)


async def run_doctor(settings: AllSettings, *, cluster_problem: str = "", as_json: bool) -> bool:
    """Print the diagnosis; True if it is healthy. `cluster_problem`: why there is no connection to the API server."""
    # An unavailable server is a finding: client libraries need not log it too.
    configure_logging(Logging(level="error"), "doctor")
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        environment = Environment(settings=settings, clock=clock, kube=KubeError(0, "NoCluster", cluster_problem))
        if not cluster_problem:
            try:
                connection = connect_kube(settings.shared.kubernetes, "doctor", clock)
                environment.kube = await stack.enter_async_context(connection)
            except KubeError as error:
                environment.kube = error
        diagnosis = await diagnose(environment)
    print_result(diagnosis, show, as_json=as_json)
    return diagnosis.healthy


async def diagnose(environment: Environment, checks: Mapping[str, Check] = CHECKS) -> Diagnosis:
    """The findings of every check, in the order of the table."""
    results = await asyncio.gather(*(_result(check, environment) for check in checks.values()))
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
        return [Finding(state="unknown", subject="this check", message=f"no result within {CHECK_TIMEOUT:g} s")]
    except Exception as error:
        message = f"failed: {type(error).__name__}: {error}"
        fix = "this is a fault of the program: please report it with this line"
        return [Finding(state="unknown", subject="this check", message=message, fix=fix)]
