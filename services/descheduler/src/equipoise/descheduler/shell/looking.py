"""What the service watches, hears and remembers, put together for those who decide."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

import structlog

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.descheduling import ReplacementPlaced
from equipoise.descheduler.decisions.evaluation.cluster_builder import Watched
from equipoise.descheduler.decisions.evaluation.snapshot import Changes, Moment, changes
from equipoise.descheduler.shell.cluster_watch import Watching
from equipoise.descheduler.shell.metrics import Telemetry
from equipoise.descheduler.state.latest_messages import Heard
from equipoise.descheduler.state.tracker import Memory

AT_ONCE = 2_000
"""Pods of a cluster small enough to be judged without a thread: it takes milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()


class Health(Protocol):
    """Where the descheduler shows how it fares."""

    leading: bool | None

    def set_problem(self, key: str, text: str | None) -> None: ...

    def warmed_up(self) -> None: ...


class Looking:
    """Kept up to date on every replica."""

    def __init__(
        self,
        *,
        load: LoadSettings,
        memory: Memory,
        heard: Heard,
        watching: Watching,
        health: Health,
        telemetry: Telemetry,
    ) -> None:
        self._load = load
        self.memory = memory
        self.heard = heard
        self.watching = watching
        self._health = health
        self._telemetry = telemetry

    async def tidied(self, watched: Watched, now: float) -> list[ReplacementPlaced]:
        """Forgets what is over; returns where replacements were seen."""
        longest = self._load.longest
        self.heard.forget(nodes=self.watching.node_names(), before=now - self._load.lifetime(longest))
        # A sample may be as old as it lives, and looks back over its window from there.
        self.watching.stays.forget(before=now - longest.length - self._load.lifetime(longest))
        found: Changes = await self.think(changes, watched, self.memory.waiting(), self.memory.assumptions)
        self._health.set_problem("annotations", found.misread or None)
        self.memory.assume(found.places, found.nodes, now)
        landings = self.memory.tidied(lambda _: found.arrivals, now)
        for landing in landings:
            if landing.placed_on == landing.node:
                self._telemetry.returns.inc()
                log.warning("replacement came back", pod=f"{landing.namespace}/{landing.pod}", node=landing.node)
        return landings

    def moment(self, watched: Watched, now: float) -> Moment:
        return Moment(
            now=now,
            watched=watched,
            nodes=dict(self.heard.nodes),
            workloads=dict(self.heard.workloads),
            cycles=list(self.heard.cycles),
            stays=self.watching.stays.copy(),
            flights=self.memory.flights,
            cool_downs=self.memory.cool_downs,
            assumptions=self.memory.assumptions,
        )

    async def think(self, decide: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """What a decision says. In a big cluster a thread asks it: a second of thinking must not stop the heartbeat."""
        if self.watching.pod_count <= AT_ONCE:
            return decide(*given, **named)
        return await asyncio.to_thread(decide, *given, **named)
