"""Shows the problems that the services report in their heartbeats, the same as in their /readyz."""

from collections import Counter
from collections.abc import Collection

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.service_heartbeats import service_heartbeats
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.bus import BusError

MAX_PROBLEM = 1_000
"""The largest number of characters that are shown of a problem."""


async def services(environment: Environment) -> list[Finding]:
    try:
        return problem_findings(await service_heartbeats(environment))
    except BusError as error:
        return [Finding("unknown", "services", f"not checked: {error}")]


def problem_findings(heartbeats: Collection[Heartbeat]) -> list[Finding]:
    """A warning for each problem of a service, which several of its processes may have."""
    processes = Counter(
        (heartbeat.service, plain_text(problem, MAX_PROBLEM))
        for heartbeat in heartbeats
        for problem in dict.fromkeys(heartbeat.problems)
    )
    if processes:
        replicas = Counter(heartbeat.service for heartbeat in heartbeats)
        return [
            Finding("warning", service, f"{problem} ({number} of {replicas[service]} processes)")
            for (service, problem), number in sorted(processes.items())
        ]
    if not heartbeats:
        return [Finding("unknown", "services", "their problems are unknown: no service has published a heartbeat")]
    return [Finding("ok", "services", f"no problem is reported by {len(heartbeats)} processes")]
