"""Clocks: this machine's, the API server's, that of the source. Ages of samples are differences between them."""

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.collector.decisions.query import SourceError
from equipoise.contracts.configuration.settings import Freshness
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import LEASES, KubeError

Bounds = tuple[float, float]
"""The least and the most that a clock may be ahead of this machine's, in seconds."""

_ANSWERS = 3
"""So many answers narrow down a clock that is told in whole seconds."""


async def clocks(around: Surroundings) -> list[Finding]:
    freshness = around.configured.shared.load.freshness
    server = await _of_api_server(around)
    findings = [_told("API server", server, freshness)]
    if around.configured.collector.source == "metrics-server":
        return findings  # it goes by the API server's clock
    name = "Prometheus" if around.configured.collector.source == "prometheus" else around.configured.collector.source
    source = await _of_source(around)
    findings.insert(0, _told(name, source, freshness))
    if not isinstance(source, str) and not isinstance(server, str):
        apart = source[0] - server[1], source[1] - server[0]
        findings.append(judged(f"{name} and API server", apart, freshness))
    return findings


def _told(name: str, found: Bounds | str, freshness: Freshness) -> Finding:
    if isinstance(found, str):
        return Finding(state="unknown", where=name, what=f"its clock is not known: {found}")
    return judged(f"{name} and this machine", found, freshness)


def judged(where: str, ahead: Bounds, freshness: Freshness) -> Finding:
    """By what is certain: the least that two clocks must be apart."""
    least, most = ahead
    apart = max(0.0, least, -most)
    direction = "ahead" if least > 0 else "behind"
    if apart > freshness.skew_unknown:
        state, effect = "error", "every value is unknown, nothing is scored and nothing evicted"
    elif apart > freshness.skew_warning:
        state, effect = "warning", "ages are wrong by as much"
    else:
        most_apart = max(abs(least), abs(most))
        return Finding(state="ok", where=where, what=f"their clocks are at most {most_apart:.1f} s apart")
    return Finding(
        state="error" if state == "error" else "warning",
        where=where,
        what=f"the first clock is at least {apart:.1f} s {direction} of the second: {effect}",
        to_do="synchronise the clocks (chrony or ntpd) on both machines",
    )


async def _of_source(around: Surroundings) -> Bounds | str:
    cut_off = 1.0 if around.configured.collector.source == "load-watcher" else 0.0  # it dates to the second
    try:
        async with around.open_source() as source:
            asked = around.clock.now()
            told = await source.time()
            return told - around.clock.now(), told - asked + cut_off
    except (ConfigurationError, KubeError, SourceError) as error:
        return str(error)


async def _of_api_server(around: Surroundings) -> Bounds | str:
    try:
        kube = around.api()
        for _ in range(_ANSWERS):
            await _any_answer(around)
    except KubeError as error:
        return str(error)
    now = around.clock.now()
    earliest, latest = kube.server_time_bounds(now)
    return earliest - now, latest - now


async def _any_answer(around: Surroundings) -> None:
    """A small one; a refusal is an answer too. Raises KubeError when there is none."""
    namespace = around.configured.shared.kubernetes.namespace
    try:
        await around.api().get(LEASES, "equipoise-collector", namespace)
    except KubeError as error:
        if not error.status:
            raise
