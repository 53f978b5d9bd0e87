"""Many plan requests are served with few plans."""

import asyncio

from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.messages.consolidation import ConsolidationRequest, ConsolidationResponse
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.shell.plan_server import PlanServer
from equipoise.runtime.process.health import Health
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock

EPOCH = LeaseEpoch(lease_uid="lease", transitions=0, holder="descheduler-1")


class SlowPlans:
    """Makes numbered plans, each once it is released."""

    def __init__(self) -> None:
        self.made = 0
        self.levels: list[MovesLevel | None] = []
        self.release = asyncio.Event()

    async def __call__(self, epoch: LeaseEpoch, request: PlanRequest) -> PlanResponse:
        self.made += 1
        self.levels.append(request.level)
        number = self.made
        await self.release.wait()
        return PlanResponse(leader=epoch, planned_at=float(number))


async def no_consolidation(epoch: LeaseEpoch, request: ConsolidationRequest) -> ConsolidationResponse:
    """The response to every request."""
    return ConsolidationResponse(mode="off", leader=epoch, planned_at=0.0)


async def test_requests_that_arrive_together_share_a_plan() -> None:
    """Those that arrive while a plan is made wait for the next one, which serves all of them."""
    plans = SlowPlans()
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    async with MemoryBus(ManualClock(0.0)) as bus:
        server = PlanServer(bus, health, plans, no_consolidation)
        first = asyncio.create_task(server.plan(EPOCH))
        await asyncio.sleep(0)
        others = [asyncio.create_task(server.plan(EPOCH)) for _ in range(19)]
        await asyncio.sleep(0)
        plans.release.set()

        assert (await first).planned_at == 1.0
        assert {plan.planned_at for plan in await asyncio.gather(*others)} == {2.0}
        assert (await server.plan(EPOCH)).planned_at == 3.0


async def test_requests_for_another_level_get_a_plan_of_their_own() -> None:
    plans = SlowPlans()
    plans.release.set()
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    async with MemoryBus(ManualClock(0.0)) as bus, PlanServer(bus, health, plans, no_consolidation).serving(EPOCH):
        for level in (None, "withoutGap", None):
            request = PlanRequest(level=level)  # type: ignore[arg-type]  # a level
            await bus.request(subjects.PLAN_PREVIEW, request, PlanResponse, timeout=5.0)

    assert plans.levels == [None, "withoutGap", None]


async def test_requests_are_served_while_the_leadership_lasts() -> None:
    """The response is the plan."""
    plans = SlowPlans()
    plans.release.set()
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    async with MemoryBus(ManualClock(0.0)) as bus, PlanServer(bus, health, plans, no_consolidation).serving(EPOCH):
        response = await bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=5.0)

    assert (response.leader, response.planned_at) == (EPOCH, 1.0)
