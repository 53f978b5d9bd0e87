"""Whether the API server responds, over time."""

from structlog.testing import capture_logs

from equipoise.runtime.kubernetes.http.availability import FAILURE_SECONDS, Availability
from equipoise.testbed.memory.clock import ManualClock


async def test_failures_of_a_minute_are_a_problem_until_the_next_success() -> None:
    """With the time and the last reason; logged once when it begins and once when it ends."""
    clock = ManualClock()
    availability = Availability(clock)
    with capture_logs() as lines:
        for _ in range(5):
            availability.failed("refused")
            assert availability.problem == ""
            await clock.advance(FAILURE_SECONDS / 5)
        availability.failed("refused")
        await clock.advance(30)
        availability.failed("wrong certificate")
        assert availability.problem == "no request to the API server has succeeded for 90 s: wrong certificate"
        availability.succeeded()
        assert availability.problem == ""
        availability.succeeded()
    assert [line["log_level"] for line in lines] == ["error", "info"]


async def test_a_success_begins_a_new_minute() -> None:
    """An API server that responds to every second request is not away."""
    clock = ManualClock()
    availability = Availability(clock)
    for _ in range(10):
        availability.failed("refused")
        await clock.advance(FAILURE_SECONDS / 2)
        availability.succeeded()
    availability.failed("refused")
    assert availability.problem == ""


async def test_one_failure_without_further_requests_is_not_a_problem() -> None:
    """A service that only follows watches sends no requests for minutes."""
    clock = ManualClock()
    availability = Availability(clock)
    availability.failed("refused")
    await clock.advance(10 * FAILURE_SECONDS)
    assert availability.problem == ""
