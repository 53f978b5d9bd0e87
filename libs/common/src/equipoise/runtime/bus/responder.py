"""Responds to the requests of one subject, for every kind of bus: for a share of the time only."""

import asyncio
from typing import Any

import msgspec

from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.process.clock import Clock

LEAST_COST = 0.01
"""Seconds that a request counts at least: receiving it and sending the response take time as well."""

BURST = 2.0
"""Seconds for which the share may be used up at once."""

REFUSALS_PER_SECOND = 50
"""The limit of refusals: more requests are dropped, as a flood of them would otherwise cause as many responses."""


class UnreadableRequest(ValueError):
    """The request cannot be decoded: an error of the caller."""


class TooManyRequests(Exception):
    """The share of the time is used up: an error of the caller, who may try again later."""


class TimeBudget:
    """The seconds that requests may take: `share` of every second, and at most those of `BURST` seconds at once.

    A request that takes longer is completed, and leaves less time for the following ones.
    """

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._left = share * BURST
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until the next request may begin; 0: at once."""
        self._left = min(self._share * BURST, self._left + self._share * max(0.0, now - self._at))
        self._at = now
        return 0.0 if self._left > 0.0 else (LEAST_COST - self._left) / self._share

    def spend(self, seconds: float) -> None:
        """A request took this long."""
        self._left -= max(LEAST_COST, seconds)


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
        """The response; None: too many requests were refused already, send nothing.

        Raises UnreadableRequest, TooManyRequests, and what the handler raises.
        """
        async with self._one_at_a_time:
            # Requests that have arrived are received without a pause: everything else must get its turn in between.
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
        now = self._clock.monotonic()
        if now - self._refused_since >= 1.0:
            self._refused, self._refused_since = 0, now
        self._refused += 1
        if self._refused <= REFUSALS_PER_SECOND:
            raise TooManyRequests(
                f"too many requests: this service spends at most {self._endpoint.share:.0%} of its time on "
                f"{self._endpoint.subject}; try again in {max(0.1, wait):.1f} s"
            )
