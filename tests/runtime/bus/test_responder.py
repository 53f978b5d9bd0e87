import asyncio

import pytest

from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.bus.responder import REFUSALS_PER_SECOND, EndpointResponder, TimeBudget, TooManyRequests
from equipoise.testbed.memory.clock import ManualClock


def test_requests_may_use_the_share_of_two_seconds_at_once_and_then_their_share() -> None:
    budget = TimeBudget(0.2, now=100.0)
    budget.spend(0.3)

    assert budget.wait(100.0) == 0.0

    budget.spend(0.3)

    assert budget.wait(100.0) == pytest.approx((0.2 + 0.01) / 0.2)
    assert budget.wait(100.5) > 0.0
    assert budget.wait(101.1) == 0.0


def test_a_long_request_is_paid_by_the_following_ones() -> None:
    budget = TimeBudget(0.2, now=0.0)
    budget.spend(10.0)

    assert budget.wait(40.0) > 0.0
    assert budget.wait(48.1) == 0.0


def test_time_without_requests_is_not_saved_up() -> None:
    budget = TimeBudget(0.2, now=0.0)
    assert budget.wait(1_000_000.0) == 0.0
    budget.spend(0.41)

    assert budget.wait(1_000_000.0) > 0.0


async def test_many_refused_requests_get_no_response_at_all() -> None:
    async def explain(_: ExplainRequest) -> Explanation:
        return Explanation()

    endpoint = Endpoint(subject="equipoise.score.explain", request_type=ExplainRequest, handler=explain, share=0.001)
    responder = EndpointResponder(endpoint, ManualClock())
    assert await responder.respond(b"{}") == Explanation()

    async def outcome() -> str:
        try:
            return "dropped" if await responder.respond(b"{}") is None else "response"
        except TooManyRequests:
            return "refused"

    outcomes = await asyncio.gather(*(outcome() for _ in range(200)))

    assert outcomes.count("refused") == REFUSALS_PER_SECOND
    assert outcomes.count("dropped") == 200 - REFUSALS_PER_SECOND
