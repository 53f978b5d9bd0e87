"""Requests about many objects, and what a failure of one means for the others."""

import asyncio

import pytest

from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import KubeError, error_for_status
from equipoise.runtime.kubernetes.paced_requests import REQUEST_TIMEOUT, RETRY_PERIOD, PacedRequests
from equipoise.testbed.memory.clock import ManualClock


class Sender:
    """Reads and writes at an interval of one second each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.reads, self.writes = (RateLimiter(self.clock, lambda: 1.0) for _ in range(2))
        self.requests = PacedRequests(self.clock, self.reads, self.writes)

    async def fail(self, error: KubeError) -> None:
        """Send one request that fails."""

        async def request() -> None:
            raise error

        with pytest.raises(KubeError):
            await self.requests.send(request())

    async def begins(self, limiter: RateLimiter) -> float:
        """The seconds until a request of this limiter may begin."""
        before = self.clock.monotonic()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(limiter.acquire(self.clock.monotonic))
            await self.clock.advance(600)
        begun = waiting.result()
        assert begun is not None
        return begun - before


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 413, 422, 500])
async def test_a_failure_of_one_object_suspends_no_requests(status: int) -> None:
    """A webhook that is down causes 500 for its objects only."""
    sender = Sender()
    await sender.fail(error_for_status(status, "Reason", "message"))
    assert 0 == await sender.begins(sender.reads)
    assert 0 == await sender.begins(sender.writes)


@pytest.mark.parametrize("status", [0, 401, 429, 502, 503, 504])
async def test_a_failure_of_the_api_server_suspends_all_requests(status: int) -> None:
    """Reads and writes; for a while, or as long as it requires."""
    sender = Sender()
    await sender.fail(error_for_status(status, "Reason", "message"))
    assert RETRY_PERIOD == await sender.begins(sender.reads)
    await sender.fail(error_for_status(status, "Reason", "message", retry_after=30.0))
    assert 30.0 == await sender.begins(sender.writes)


async def test_a_request_without_a_response_ends_and_suspends_the_others() -> None:
    """Whether the API server received it is not known."""
    sender = Sender()
    sent = asyncio.create_task(sender.requests.send(asyncio.Event().wait()))
    await sender.clock.advance(REQUEST_TIMEOUT)
    with pytest.raises(TimeoutError):
        await sent
    assert RETRY_PERIOD == await sender.begins(sender.writes)
