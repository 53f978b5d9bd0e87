"""Responds to plan requests while this replica leads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.consolidation import ConsolidationRequest, ConsolidationResponse
from equipoise.contracts.messages.plan import PLAN_REQUEST, PlanRequest, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Bus, BusError, Endpoint
from equipoise.runtime.process.health import Health

STOP_TIMEOUT = 1.0
"""Seconds to remove the endpoint at the end of the leadership: another replica may lead soon."""

MakePlan = Callable[[LeaseEpoch, PlanRequest], Awaitable[PlanResponse]]
Consolidate = Callable[[LeaseEpoch, ConsolidationRequest], Awaitable[ConsolidationResponse]]

log = structlog.get_logger()


@dataclass
class _Requests:
    """The same requests, as long as one of them waits."""

    arrived: int = 0
    waiting: int = 0
    served: int = 0
    """The number of requests that had arrived when the last plan was begun."""

    last: PlanResponse | None = None


@dataclass
class PlanServer:
    """Makes one plan for all requests for the same that arrived before it was begun."""

    bus: Bus
    health: Health
    make_plan: MakePlan
    consolidate: Consolidate

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()
        self._requests: dict[PlanRequest, _Requests] = {}

    @asynccontextmanager
    async def serving(self, epoch: LeaseEpoch) -> AsyncIterator[None]:
        """Responds to plan requests while the context is open."""

        async def respond(request: PlanRequest) -> PlanResponse:
            return await self.plan(epoch, request)

        async def respond_consolidation(request: ConsolidationRequest) -> ConsolidationResponse:
            async with self._lock:
                return await self.consolidate(epoch, request)

        # A plan is made in another thread, and no client needs the descheduler within seconds.
        endpoints: list[Endpoint[Any, Any]] = [
            Endpoint(subject=subjects.PLAN_PREVIEW, request_type=PlanRequest, handler=respond, share=1.0),
            Endpoint(
                subject=subjects.PLAN_CONSOLIDATION,
                request_type=ConsolidationRequest,
                handler=respond_consolidation,
                share=1.0,
            ),
        ]
        try:
            stop = await self.bus.serve("descheduler", endpoints)
        except BusError as error:
            self.health.set_problem("plans", f"plan requests cannot be received: {error}")
            yield
            return
        self.health.set_problem("plans", None)
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(STOP_TIMEOUT):
                    await stop()
            except (BusError, TimeoutError) as error:
                log.warning("the endpoint for plan requests was not removed", reason=str(error))

    async def plan(self, epoch: LeaseEpoch, request: PlanRequest = PLAN_REQUEST) -> PlanResponse:
        """The plan for a request. Requests wait for each other, so that many at once do not cause many plans."""
        requests = self._requests.setdefault(request, _Requests())
        requests.arrived += 1
        requests.waiting += 1
        number = requests.arrived
        try:
            async with self._lock:
                if requests.last is None or requests.served < number:
                    arrived = requests.arrived
                    requests.last = await self.make_plan(epoch, request)
                    requests.served = arrived
                return requests.last
        finally:
            requests.waiting -= 1
            if not requests.waiting:
                del self._requests[request]
