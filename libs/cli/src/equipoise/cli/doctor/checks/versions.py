"""Checks that this version of the program supports the versions of the API server and of the services."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from importlib.metadata import version

from equipoise.cli.bus.heartbeats import LISTEN_SECONDS
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.service_heartbeats import published_configurations, service_heartbeats
from equipoise.contracts.kubernetes.supported_versions import NEWEST_KUBERNETES, OLDEST_KUBERNETES
from equipoise.contracts.messages.health import EffectiveConfiguration, Heartbeat
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import KubeError

API_SERVER = "Kubernetes"
SERVICE_FIX = "upgrade the services (docs/upgrading.md)"
FORGED_FIX = (
    "run doctor again: the process may just have ended or changed. Else somebody with the NATS password of this "
    "service publishes in its name: replace the password (docs/security.md)"
)
PROGRAM_FIX = "upgrade this program: uv tool upgrade equipoise, or pip install --upgrade equipoise"

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})")


async def versions(environment: Environment) -> list[Finding]:
    try:
        found = [kubernetes_finding(await environment.api().server_version())]
    except KubeError as error:
        found = [Finding("unknown", API_SERVER, f"its version is unknown: {error}")]
    return [*found, *await _service_findings(environment)]


def kubernetes_finding(server: str) -> Finding:
    """The finding for the API server. `server`: its gitVersion, to which vendors append text, as in v1.30.1-gke.200."""
    oldest, newest = _text(OLDEST_KUBERNETES), _text(NEWEST_KUBERNETES)
    supported = f"supported are {oldest} and newer, tested is {newest}"
    number = _number(server)
    if number is None:
        return Finding("unknown", API_SERVER, f"{server!r} is no version; {supported}")
    if number < OLDEST_KUBERNETES:
        fix = f"upgrade the cluster to {oldest} or newer: older ones have no ValidatingAdmissionPolicies"
        return Finding("error", API_SERVER, f"{server} is not supported; {supported}", fix)
    if number > NEWEST_KUBERNETES:
        fix = "look for a newer version of Equipoise, or try this one with every eviction as a dry run first"
        return Finding("warning", API_SERVER, f"{server} is newer than what was tested; {supported}", fix)
    return Finding("ok", API_SERVER, f"{server}; {supported}")


async def _service_findings(environment: Environment) -> list[Finding]:
    try:
        heartbeats = await service_heartbeats(environment)
    except BusError as error:
        return [Finding("unknown", "services", f"not checked: {error}")]
    findings = service_findings(heartbeats, version("equipoise-common"))
    return [*findings, *contradictions(published_configurations(environment), heartbeats)]


def contradictions(
    published: Collection[EffectiveConfiguration], heartbeats: Collection[Heartbeat]
) -> Iterator[Finding]:
    """A warning for each process that published a configuration, but no heartbeat, or one that contradicts it.

    Somebody else may have published the configuration. Without any heartbeat nothing can be compared.
    """
    latest = {(each.service, each.id): each for each in heartbeats}
    if not heartbeats:
        return
    for each in published:
        beat = latest.get((each.service, each.id))
        if beat is None:
            message = f"{each.id} has published a configuration, and no heartbeat within {LISTEN_SECONDS:.0f} s"
            yield Finding("warning", each.service, message, FORGED_FIX)
        elif beat.evictions != each.evictions:
            message = (
                f"evictions of {each.id} are {beat.evictions or 'not known'!r} by its heartbeat, and "
                f"{each.evictions or 'not known'!r} by its configuration"
            )
            yield Finding("warning", each.service, message, FORGED_FIX)


def service_findings(heartbeats: Collection[Heartbeat], own: str) -> list[Finding]:
    """A finding for each service and version. `own`: the version of this program."""
    if not heartbeats:
        message = f"no service has published its version within {LISTEN_SECONDS:.0f} s"
        return [Finding("unknown", "services", message, "check that they run: kubectl -n equipoise-system get pods")]
    replicas = Counter((each.service, each.version) for each in heartbeats)
    return [_service_finding(service, found, own, replicas[service, found]) for service, found in sorted(replicas)]


def _service_finding(service: str, found: str, own: str, replicas: int) -> Finding:
    message = f"version {found} ({replicas} {'process' if replicas == 1 else 'processes'})"
    theirs, ours = _number(found), _number(own)
    if theirs is None or ours is None:
        return Finding("unknown", service, f"{message}; this program: {own}")
    if theirs == ours:
        return Finding("ok", service, message)
    fix = SERVICE_FIX if theirs < ours else PROGRAM_FIX
    message = f"{message} is {'older' if theirs < ours else 'newer'} than this program, {own}"
    if theirs[0] == ours[0] and abs(theirs[1] - ours[1]) == 1:
        return Finding("warning", service, message, fix)
    return Finding("error", service, f"{message}: their messages are read only one minor version apart", fix)


def _number(text: str) -> tuple[int, int] | None:
    """Major and minor version."""
    match = _VERSION.match(text)
    return None if match is None else (int(match[1]), int(match[2]))


def _text(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))
