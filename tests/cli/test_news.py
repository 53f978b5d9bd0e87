"""What `equipoise up` says of its services while they run."""

from equipoise.cli.up import news
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


def test_readiness_is_said_once() -> None:
    """When it comes, and when it goes."""
    assert ["scorer is ready"] == list(news("scorer", None, a_report()))
    assert [] == list(news("scorer", a_report(), a_report()))
    assert [] == list(news("scorer", None, a_report(ready=False)))
    lost = "scorer is not ready any more: it waits for"
    assert [f"{lost} nats"] == list(news("scorer", a_report(), a_report(ready=False)))
    assert [f"{lost} its answer"] == list(news("scorer", a_report(), None))


def test_a_problem_is_said_when_it_comes_and_when_it_is_over() -> None:
    """Not in between."""
    assert ["scorer: blind"] == list(news("scorer", a_report(), a_report("blind")))
    assert [] == list(news("scorer", a_report("blind"), a_report("blind")))
    assert ["scorer: over: blind"] == list(news("scorer", a_report("blind"), a_report()))
