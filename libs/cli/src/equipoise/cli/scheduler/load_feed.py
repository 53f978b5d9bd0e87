"""What the policies of the scorer need, from the bus: the messages that the scorer receives."""

import asyncio
from typing import NoReturn

from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.load.latest import is_acceptable
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.scorer.state.scoring_state import ScoringState

PRUNE_SECONDS = 5.0


class LoadFeed:
    """Keeps a ScoringState up to date. Without the bus its loads become too old, and scores neutral."""

    def __init__(self, state: ScoringState, clock: Clock, health: Health) -> None:
        self._state = state
        self._clock = clock
        self._health = health
        self.received = asyncio.Event()
        """The last values of all subjects are received."""

    async def run(self, bus: Bus) -> NoReturn:
        self._prune(bus)
        latest = bus.subscribe_latest
        await latest(f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self._on_workload)
        await bus.subscribe(f"{PREFIX}.eviction.intent.*.*", EvictionIntent, self._on_intent)
        await latest(f"{PREFIX}.eviction.outcome.*.*", EvictionOutcome, self._on_outcome)
        await latest(f"{PREFIX}.placement.node.*", NodePlacement, self._on_placement)
        await latest(f"{PREFIX}.utilization.node.*", NodeUtilization, self._on_node)
        if self._state.settings.reclaimed.enabled:
            await latest(f"{PREFIX}.reclaim.node.*", ReclaimedNode, self._on_reclaimed)
        await latest(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, self._on_cycle)
        self.received.set()
        while True:
            self._prune(bus)
            await self._clock.sleep(PRUNE_SECONDS)

    def _prune(self, bus: Bus) -> None:
        """Removes what is no longer used, and reports why nodes are not scored by their load."""
        now = self._clock.now()
        self._state.prune(now)
        self._health.set_problem("bus", "; ".join(bus.problems) or None)
        self._health.set_problem("load", self._state.coverage_problem(now) or None)

    async def _on_workload(self, delivery: Delivery[WorkloadUtilization]) -> None:
        if is_acceptable(delivery.message, self._clock.now()):
            self._state.nodes.on_workload(delivery.message)

    async def _on_node(self, delivery: Delivery[NodeUtilization]) -> None:
        now = self._clock.now()
        if is_acceptable(delivery.message, now):
            self._state.nodes.on_utilization(delivery.message, now)

    async def _on_reclaimed(self, delivery: Delivery[ReclaimedNode]) -> None:
        self._state.nodes.on_reclaimed(delivery.message, self._clock.now())

    async def _on_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        if is_acceptable(delivery.message, self._clock.now()):
            self._state.on_cycle(delivery.message)

    async def _on_placement(self, delivery: Delivery[NodePlacement]) -> None:
        self._state.on_placement(delivery.message, self._clock.now())

    async def _on_intent(self, delivery: Delivery[EvictionIntent]) -> None:
        self._state.replacements.on_intent(delivery.message, self._clock.now())

    async def _on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        self._state.replacements.on_outcome(delivery.message, self._clock.now())
