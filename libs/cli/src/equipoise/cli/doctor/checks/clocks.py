"""Checks that the clocks of this machine, the API server and the metrics source agree.

The age of a sample is the difference of two of these clocks.
"""

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.collector.decisions.query import SourceError
from equipoise.contracts.configuration.settings import Freshness
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import LEASES, KubeError

SkewBounds = tuple[float, float]
"""Seconds that a clock is ahead of this machine's: at least and at most."""

_REQUESTS = 3
"""The API server reports its time in whole seconds; several responses narrow it down."""


async def clocks(environment: Environment) -> list[Finding]:
    freshness = environment.settings.shared.load.freshness
    server = await _skew_of_api_server(environment)
    findings = [_finding("API server", server, freshness)]
    source_name = environment.settings.collector.source
    if source_name == "metrics-server":
        return findings  # metrics-server uses the clock of the API server
    name = "Prometheus" if source_name == "prometheus" else source_name
    source = await _skew_of_source(environment)
    findings.insert(0, _finding(name, source, freshness))
    if not isinstance(source, str) and not isinstance(server, str):
        skew = source[0] - server[1], source[1] - server[0]
        findings.append(skew_finding(f"{name} and API server", skew, freshness))
    return findings


def _finding(name: str, skew: SkewBounds | str, freshness: Freshness) -> Finding:
    if isinstance(skew, str):
        return Finding("unknown", name, f"its clock is unknown: {skew}")
    return skew_finding(f"{name} and this machine", skew, freshness)


def skew_finding(subject: str, skew: SkewBounds, freshness: Freshness) -> Finding:
    """The finding for the smallest possible skew."""
    at_least, at_most = skew
    certain = max(0.0, at_least, -at_most)
    direction = "ahead of" if at_least > 0 else "behind"
    fix = "synchronize the clocks (chrony or ntpd) of both machines"
    message = f"the first clock is at least {certain:.1f} s {direction} the second"
    if certain > freshness.skew_unknown:
        message += ": every load is unknown, scores are neutral and nothing is evicted"
        return Finding("error", subject, message, fix)
    if certain > freshness.skew_warning:
        return Finding("warning", subject, f"{message}: sample ages are wrong by this", fix)
    possible = max(abs(at_least), abs(at_most))
    return Finding("ok", subject, f"the clocks differ by at most {possible:.1f} s")


async def _skew_of_source(environment: Environment) -> SkewBounds | str:
    truncation = 1.0 if environment.settings.collector.source == "load-watcher" else 0.0  # it reports whole seconds
    try:
        async with environment.open_source() as source:
            before = environment.clock.now()
            time = await source.time()
            return time - environment.clock.now(), time - before + truncation
    except (ConfigurationError, KubeError, SourceError) as error:
        return str(error)


async def _skew_of_api_server(environment: Environment) -> SkewBounds | str:
    namespace = environment.settings.shared.kubernetes.namespace
    try:
        kube = environment.api()
        for _ in range(_REQUESTS):
            try:
                await kube.get(LEASES, "equipoise-collector", namespace)
            except KubeError as error:
                if not error.status:  # any response states the time, even a refusal
                    raise
    except KubeError as error:
        return str(error)
    now = environment.clock.now()
    earliest, latest = kube.server_time_bounds(now)
    return earliest - now, latest - now
