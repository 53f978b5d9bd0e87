"""Sends requests about many objects at a configured rate, and pauses after failures of the API server."""

from collections.abc import Awaitable
from typing import TypeVar

from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import Clock

REQUEST_TIMEOUT = 10.0
"""Seconds for one request."""

RETRY_PERIOD = 5.0
"""Seconds without requests after a failure of the API server. It may request a longer pause."""

T = TypeVar("T")


class PacedRequests:
    """Sends requests. Callers must call `acquire` of one of the rate limiters immediately before each request."""

    def __init__(self, clock: Clock, *limiters: RateLimiter) -> None:
        self._clock = clock
        self._limiters = limiters

    async def send(self, request: Awaitable[T]) -> T:
        """The response. Raises what the request raises, and TimeoutError after REQUEST_TIMEOUT.

        Suspends all rate limiters after a failure that may affect requests about other objects.
        """
        try:
            return await run_with_guard(request, timeout_after(self._clock, REQUEST_TIMEOUT))
        except (KubeError, TimeoutError) as error:
            if not concerns_one_object(error):
                for limiter in self._limiters:
                    limiter.suspend(max(RETRY_PERIOD, getattr(error, "retry_after", None) or 0.0))
            raise


def concerns_one_object(error: KubeError | TimeoutError) -> bool:
    """Whether requests about other objects may succeed. A webhook that is down causes status 500, but only for its
    objects."""
    return isinstance(error, KubeError) and 400 <= error.status <= 500 and error.status not in (401, 429)
