"""`doctor` shows what services report about themselves."""

import msgspec

from equipoise.cli.doctor.checks.services import MAX_PROBLEM, problem_findings, services
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.messages.health import HEARTBEAT, Heartbeat
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import SystemClock

REFUSED = "Prometheus at http://prometheus.monitoring:9090: 401, the credentials are rejected"


def heartbeat(service: str, name: str, *problems: str) -> Heartbeat:
    return msgspec.structs.replace(HEARTBEAT, service=service, id=name, problems=list(problems))


def test_a_problem_of_several_processes_is_one_warning() -> None:
    found = problem_findings(
        [heartbeat("collector", "c-1", REFUSED), heartbeat("collector", "c-2", REFUSED), heartbeat("scorer", "s-1")]
    )
    [finding] = found
    assert (finding.state, finding.subject) == ("warning", "collector")
    assert finding.message == f"{REFUSED} (2 of 2 processes)"


def test_services_without_problems_are_counted() -> None:
    [finding] = problem_findings([heartbeat("collector", "c-1"), heartbeat("scorer", "s-1")])
    assert (finding.state, finding.message) == ("ok", "no problem is reported by 2 processes")


def test_without_heartbeats_nothing_is_known() -> None:
    [finding] = problem_findings([])
    assert finding.state == "unknown"


def test_texts_of_the_bus_are_shown_as_plain_text_of_limited_length() -> None:
    """Whoever has the password of a service can publish anything in its name."""
    [finding] = problem_findings([heartbeat("collector", "c-1", "\x1b[31m" + "x" * 10_000)])
    assert "\x1b" not in finding.message
    assert len(finding.message) < MAX_PROBLEM + 100


async def test_without_nats_the_check_bus_is_named() -> None:
    no_cluster = KubeError(0, "NoCluster", "")
    environment = Environment(settings=AllSettings(), clock=SystemClock(), kube=no_cluster, nats_problem="refused")
    [finding] = await services(environment)
    assert (finding.state, "see the check bus" in finding.message) == ("unknown", True)
