"""The configuration of `equipoise up`, and the changes of readiness that it prints."""

from pathlib import Path

from equipoise.cli.kubeconfig import Context
from equipoise.cli.up.run import complete_document, readiness_changes
from equipoise.runtime.process.health import Readiness
from equipoise.testbed.processes.loopback import PortBlock

SHIPPED = Path(__file__).parents[2] / "k8s" / "base" / "equipoise.yaml"


def test_the_shipped_configuration_serves_this_machine_without_certificates() -> None:
    """The files that it names exist only in a cluster. An address that is configured keeps its TLS settings."""
    context, ports = Context(files="", name="", cluster="", server=""), PortBlock()
    try:
        documents = [
            complete_document(SHIPPED.read_text(), environment, "http://x", context, evict=False, ports=ports)
            for environment in ({}, {"EQUIPOISE_SCORER__LISTEN": "10.0.0.1:8888"})
        ]
    finally:
        ports.release()
    local, reachable = [document["scorer"] for document in documents]
    assert local["listen"].startswith("127.0.0.1:")
    assert local["extender"]["tls"] is None
    assert reachable["listen"] == "10.0.0.1:8888"
    assert reachable["extender"]["tls"]["clientCaFile"]


def a_report(*problems: str, ready: bool = True) -> Readiness:
    waiting = [] if ready else ["nats"]
    return Readiness(
        ready=ready,
        waiting_for=waiting,
        connections={},
        problems=list(problems),
        leading=None,
        configuration="",
    )


def test_readiness_is_printed_when_it_changes() -> None:
    """Once."""
    assert ["scorer is ready"] == list(readiness_changes("scorer", None, a_report()))
    assert [] == list(readiness_changes("scorer", a_report(), a_report()))
    assert [] == list(readiness_changes("scorer", None, a_report(ready=False)))
    lost = "scorer is no longer ready:"
    assert [f"{lost} waiting for nats"] == list(readiness_changes("scorer", a_report(), a_report(ready=False)))
    assert [f"{lost} no response from /readyz"] == list(readiness_changes("scorer", a_report(), None))


def test_a_problem_is_printed_when_it_begins_and_when_it_is_resolved() -> None:
    """Once each."""
    assert ["scorer: coverage"] == list(readiness_changes("scorer", a_report(), a_report("coverage")))
    assert [] == list(readiness_changes("scorer", a_report("coverage"), a_report("coverage")))
    assert ["scorer: resolved: coverage"] == list(readiness_changes("scorer", a_report("coverage"), a_report()))
