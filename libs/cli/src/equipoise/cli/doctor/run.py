"""The command: runs every check beside the others, whatever becomes of one, and shows what was found."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from equipoise.cli.doctor.checks import CHECKS, Check
from equipoise.cli.doctor.environment import Configured, Surroundings
from equipoise.cli.doctor.finding import Diagnosis, Finding
from equipoise.cli.doctor.text import show
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.cli.terminal import console
from equipoise.runtime.configuration import Kubernetes, Logging, read_document, read_sections
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

CHECK_SECONDS = 120.0
"""After which a check is given up: a person waits."""


def configuration_for(
    configuration: Path | None,
    environment: Mapping[str, str],
    *,
    prometheus_url: str | None,
    nats: Mapping[str, str | None],
    cluster: Kubernetes | None,
) -> Configured:
    """The whole configuration: options override environment variables, those the file, that the defaults.

    `nats`: values that are not None override those of the section. Raises ConfigurationError, and ValueError for
    invalid options.
    """
    plain = {} if configuration is None else read_document(configuration.read_text())
    shared, own = read_sections(plain, SERVICE_SETTINGS, environment)
    server = msgspec.structs.replace(shared.nats, **{name: value for name, value in nats.items() if value is not None})
    shared = msgspec.structs.replace(shared, nats=server, kubernetes=cluster or shared.kubernetes)
    configured = Configured(shared=shared, **own)  # type: ignore[arg-type]  # SERVICE_SETTINGS has the type of each
    if prometheus_url is None:
        return configured
    prometheus = msgspec.structs.replace(configured.collector.prometheus, url=prometheus_url)
    collector = msgspec.structs.replace(configured.collector, prometheus=prometheus)
    return msgspec.structs.replace(configured, collector=collector)


async def run_doctor(configured: Configured, *, cluster_problem: str = "", as_json: bool) -> bool:
    """Print the diagnosis; is all well? `cluster_problem`: why there is no way to the API server."""
    # What cannot be reached is a finding: the libraries need not say so too.
    configure_logging(Logging(level="error"), "doctor")
    clock = SystemClock()
    async with AsyncExitStack() as open_:
        kube = KubeError(0, "NoCluster", cluster_problem)
        around = Surroundings(configured=configured, clock=clock, kube=kube)
        if not cluster_problem:
            try:
                around.kube = await open_.enter_async_context(
                    connect_kube(configured.shared.kubernetes, "doctor", clock)
                )
            except KubeError as error:
                around.kube = error
        diagnosis = await diagnose(around)
    if as_json:
        print(msgspec.json.encode({"well": diagnosis.well, "findings": diagnosis.findings}).decode())
    else:
        show(diagnosis, console())
    return diagnosis.well


async def diagnose(around: Surroundings, checks: Mapping[str, Check] = CHECKS) -> Diagnosis:
    """Every check's findings, in the order of the table."""
    found = await asyncio.gather(*(_carried_out(check, around) for check in checks.values()))
    return Diagnosis(
        findings=[
            msgspec.structs.replace(finding, check=name)
            for name, findings in zip(checks, found, strict=True)
            for finding in findings
        ]
    )


async def _carried_out(check: Check, around: Surroundings) -> list[Finding]:
    """What it finds; a fault of its own is a finding too, and keeps no other from its work."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check(around)
    except TimeoutError:
        return [Finding(state="unknown", where="this check", what=f"took longer than {CHECK_SECONDS:g} s")]
    except Exception as error:
        what = f"failed: {type(error).__name__}: {error}"
        to_do = "this is a fault of the program: please tell of it, with this line"
        return [Finding(state="unknown", where="this check", what=what, to_do=to_do)]
