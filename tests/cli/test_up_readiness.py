"""Changes of readiness that `equipoise up` prints."""

from equipoise.cli.up.run import readiness_changes
from equipoise.runtime.process.health import Readiness


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
