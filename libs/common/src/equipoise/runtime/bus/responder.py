"""Responds to requests on one subject, within a share of the time. All implementations of the bus use it."""

import asyncio
from typing import Any

import msgspec

from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.process.clock import Clock

LEAST_COST = 0.01
"""The minimum number of seconds that a request counts, because receiving and responding take time as well."""

BURST = 2.0
"""Seconds whose share may be used up at once."""

REFUSALS_PER_SECOND = 50
"""The maximum number of refusals. Further requests are dropped, or a flood of them would cause as many responses."""


class UnreadableRequest(ValueError):
    """The request cannot be decoded: an error of the caller."""


class TooManyRequests(Exception):
    """The share of the time is used up. The caller may try again later."""


class TimeBudget:
    """The time that requests may take: `share` of every second. The share of `BURST` seconds may be saved up.

    A request that takes longer than that is completed, and leaves less time for the following requests.
    """

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._remaining = share * BURST
        self._updated_at = now

    def wait(self, now: float) -> float:
        """Seconds until the next request may begin; 0: at once."""
        self._remaining = min(self._share * BURST, self._remaining + self._share * max(0.0, now - self._updated_at))
        self._updated_at = now
        return 0.0 if self._remaining > 0.0 else (LEAST_COST - self._remaining) / self._share

    def spend(self, seconds: float) -> None:
        """Subtracts the duration of a request."""
        self._remaining -= max(LEAST_COST, seconds)


class EndpointResponder:
    """Decodes requests and calls the handler of an endpoint."""

    def __init__(self, endpoint: Endpoint[Any, Any], clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._decoder = TolerantDecoder(endpoint.request_type)
        self._budget = TimeBudget(endpoint.share, clock.monotonic())
        self._one_at_a_time = asyncio.Lock()
        self._refused = 0
        self._refused_since = clock.monotonic()

    async def respond(self, payload: bytes) -> msgspec.Struct | None:
        """The response; None if nothing is to be sent, because too many requests were refused already.

        Raises UnreadableRequest, TooManyRequests, and what the handler raises.
        """
        async with self._one_at_a_time:
            # Requests that have already arrived are received without a pause. Other tasks must run in between.
            await asyncio.sleep(0)
            if wait := self._budget.wait(self._clock.monotonic()):
                self._refuse(wait)
                return None
            begun = self._clock.monotonic()
            try:
                response: msgspec.Struct = await self._endpoint.handler(self._decoded(payload))
            finally:
                self._budget.spend(self._clock.monotonic() - begun)
            return response

    def _decoded(self, payload: bytes) -> Any:
        try:
            return plausible(self._decoder.decode(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UnreadableRequest(f"the request cannot be decoded: {error}") from error

    def _refuse(self, wait: float) -> None:
        """Raises TooManyRequests, unless it was already raised for `REFUSALS_PER_SECOND` requests in this second."""
        now = self._clock.monotonic()
        if now - self._refused_since >= 1.0:
            self._refused, self._refused_since = 0, now
        self._refused += 1
        if self._refused <= REFUSALS_PER_SECOND:
            raise TooManyRequests(
                f"too many requests: this service spends at most {self._endpoint.share:.0%} of its time on "
                f"{self._endpoint.subject}; try again in {max(0.1, wait):.1f} s"
            )
