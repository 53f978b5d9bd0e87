"""Receives from the bus what the policies of the scorer need: the same messages as the scorer."""

import asyncio
from typing import NoReturn

from equipoise.contracts.bus import channels
from equipoise.runtime.bus import Bus
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.scorer.state.scoring_state import ScoringState

PRUNE_SECONDS = 5.0


class LoadFeed:
    """Keeps a ScoringState up to date. If the bus fails, its loads become too old and all scores neutral."""

    def __init__(self, state: ScoringState, clock: Clock, health: Health) -> None:
        self._state = state
        self._clock = clock
        self._health = health
        self.received = asyncio.Event()
        """Set when the latest message of every subject has been received."""

    async def run(self, bus: Bus) -> NoReturn:
        self._prune(bus)
        state, nodes, replacements = self._state, self._state.nodes, self._state.replacements
        await bus.follow(channels.WORKLOAD_UTILIZATIONS, nodes.on_workload)
        await bus.follow(channels.EVICTION_INTENTS, replacements.on_intent)
        await bus.follow(channels.EVICTION_OUTCOMES, replacements.on_outcome)
        await bus.follow(channels.NODE_PLACEMENTS, lambda message, now: state.on_placement(message, now) is not None)
        await bus.follow_many(channels.NODE_UTILIZATIONS, nodes.on_utilizations)
        if state.settings.reclaimed.enabled:
            await bus.follow(channels.RECLAIMED_NODES, nodes.on_reclaimed)
        await bus.follow(channels.UTILIZATION_CYCLES, state.on_cycle)
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
