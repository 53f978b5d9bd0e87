"""What the leader does: it evaluates every interval, says its intents, and tells who asks what would move now."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DescheduleDecision, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.evaluation.messages import Followed, decision_of, intent_of
from equipoise.descheduler.decisions.evaluation.preview import Waiting, preview
from equipoise.descheduler.decisions.evaluation.snapshot import Configured, Look, blindness_of, judged, siblings
from equipoise.descheduler.decisions.strategies import name_of
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.looking import Health, Looking
from equipoise.descheduler.shell.metrics import Telemetry
from equipoise.descheduler.state.cluster import Fleet, Move, Plan
from equipoise.descheduler.state.cool_downs import resting_nodes
from equipoise.descheduler.state.dry_run_moves import told
from equipoise.descheduler.state.relief_trials import Sources
from equipoise.runtime.bus import AlreadyQueued, Bus, BusError, Endpoint
from equipoise.runtime.process.clock import Clock

STOP_TIMEOUT = 1.0
"""Seconds for the bus to take away what a leader answered: longer than that a Lease does not wait."""

NAMED_NODES = 5
"""Resting nodes that /readyz names."""

log = structlog.get_logger()


class Leader:
    """`run` while the Lease is held."""

    def __init__(
        self,
        *,
        settings: DeschedulerSettings,
        configured: Configured,
        looking: Looking,
        bus: Bus,
        clock: Clock,
        health: Health,
        telemetry: Telemetry,
    ) -> None:
        self._settings = settings
        self._configured = configured
        self._looking = looking
        self._memory = looking.memory
        self._bus = bus
        self._clock = clock
        self._health = health
        self._telemetry = telemetry
        self._showing = asyncio.Lock()
        self._asked = self._shown_to = 0
        """Questions for plans so far, and how many of them the last plan answers."""

        self._shown: PlanResponse | None = None

    async def run(self, epoch: LeaseEpoch) -> None:
        """Until cancelled. Another leader's counts say nothing of what we saw: they begin anew."""
        self._memory.forget_counts()
        try:
            async with self._plans_shown(epoch):
                await self._clock.sleep(self._settings.warm_up)
                while True:
                    begun = self._clock.monotonic()
                    await self._evaluate(epoch)
                    took = self._clock.monotonic() - begun
                    self._telemetry.evaluation_seconds.observe(took)
                    await self._clock.sleep(max(0.0, self._settings.interval - took))
        finally:
            # Who does not evaluate any more knows nothing of them.
            for key in ("blind", "resting"):
                self._health.set_problem(key, None)
            self._telemetry.resting_nodes.set(0)
            self._telemetry.assumed_moves.set(0)

    # What is asked

    @asynccontextmanager
    async def _plans_shown(self, epoch: LeaseEpoch) -> AsyncIterator[None]:
        """While this replica leads, it and no other tells what would move."""

        async def answer(_: PlanRequest) -> PlanResponse:
            return await self._show_plan(epoch)

        endpoint = Endpoint(subject=subjects.PLAN_PREVIEW, request_type=PlanRequest, handler=answer)
        try:
            stop = await self._bus.serve("descheduler", [endpoint])
        except BusError as error:
            self._health.set_problem("plans", f"plans cannot be asked for: {error}")
            yield
            return
        self._health.set_problem("plans", None)
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(STOP_TIMEOUT):
                    await stop()
            except (BusError, TimeoutError) as error:
                log.warning("plans are still answered here", reason=str(error))

    async def _show_plan(self, epoch: LeaseEpoch) -> PlanResponse:
        """Many may ask at once: whoever asked before a plan was begun is given that one, so that nobody waits long."""
        self._asked += 1
        mine = self._asked
        async with self._showing:
            if self._shown is None or self._shown_to < mine:
                asked = self._asked
                self._shown = await self._make_plan(epoch)
                self._shown_to = asked
            return self._shown

    async def _make_plan(self, epoch: LeaseEpoch) -> PlanResponse:
        now = self._clock.now()
        looking = self._looking
        watched = looking.watching.watched()
        await asyncio.sleep(0)  # both snapshots of a big cluster in one turn would hold everybody else up
        waiting = Waiting(
            counts=self._memory.counts,
            needed=self._settings.consecutive_abnormalities,
            interval=self._settings.interval,
        )
        shown = await looking.think(
            preview,
            looking.moment(watched, now),
            self._configured,
            self._settings.strategies,
            waiting,
            unwatched=looking.watching.problem,
        )
        return msgspec.structs.replace(shown, evictions=looking.heard.evictions(now), leader=epoch)

    # What it decides

    async def _evaluate(self, epoch: LeaseEpoch) -> None:
        """One evaluation: what every node is, how often in a row, and what follows."""
        now = self._clock.now()
        watched = self._looking.watching.watched()
        landings = await self._looking.tidied(watched, now)
        moment = self._looking.moment(watched, now)
        look = await self._looking.think(Look, moment, self._configured)
        fleet = look.fleet
        followed = self._follow(fleet, landings, now)
        blind = blindness_of(fleet, moment, self._configured.load, unwatched=self._looking.watching.problem)
        self._health.set_problem("blind", blind or None)
        taken: set[str] = set()
        for strategy in self._settings.strategies:
            name = name_of(strategy)
            seen = await self._looking.think(judged, strategy, fleet)
            self._telemetry.saw(name, seen.verdicts)
            counts = self._memory.count(name, seen.readings, now)
            plan = Plan(why=blind)
            if not blind:
                if taken:  # what was proposed a moment ago is under way
                    fleet = await self._looking.think(look.after, self._memory.flights, self._memory.assumptions)
                plan = await self._looking.think(strategy.plan, fleet, self._memory.abnormal(name))
            moves = [move for move in plan.moves if move.pod.uid not in taken]
            taken |= {move.pod.uid for move in moves}
            known = await self._looking.think(siblings, watched, moves)
            sources = Sources.of(fleet, seen.verdicts)
            published = await self._propose(moves, name, known, sources, epoch, now)
            await self._tell(
                decision_of(
                    name,
                    verdicts=seen.verdicts,
                    counts=counts,
                    plan=plan,
                    published=published,
                    followed=followed,
                    now=now,
                )
            )
            followed = msgspec.structs.replace(followed, landings=(), reliefs=())

    async def _propose(
        self,
        moves: Sequence[Move],
        strategy: str,
        known: Mapping[Workload, Sequence[str]],
        sources: Sources,
        epoch: LeaseEpoch,
        now: float,
    ) -> list[EvictionIntent]:
        """Publishes the intents of a plan; returns those that the bus took."""
        published: list[EvictionIntent] = []
        for move in moves:
            intent = intent_of(move, strategy=strategy, now=now, life=self._settings.intent_life, epoch=epoch)
            self._memory.proposed(
                intent,
                known=known[move.pod.workload] if move.pod.workload else [],
                fit=move.pod.fit,
                before=sources.usage.get(intent.node, Resources()),
                over=sources.over.get(intent.node, ()),
            )
            if await self._say_intent(intent):
                published.append(intent)
                self._telemetry.intents.labels(strategy).inc()
                log.info(
                    "eviction proposed",
                    pod=f"{intent.namespace}/{intent.pod}",
                    node=intent.node,
                    target=intent.target,
                    reason=intent.reason,
                )
            else:
                self._memory.withdrawn(intent.id)
        return published

    async def _say_intent(self, intent: EvictionIntent) -> bool:
        subject = subjects.eviction_intent(intent.namespace, intent.pod)
        try:
            await self._bus.publish(subject, intent, message_id=intent.id)
        except AlreadyQueued:
            log.debug("intent waiting already", pod=f"{intent.namespace}/{intent.pod}")
            return False
        except BusError as error:
            self._health.set_problem("intents", f"intents are not taken: {error}")
            return False
        self._health.set_problem("intents", None)
        return True

    async def _tell(self, decision: DescheduleDecision) -> None:
        """For people and records: nothing depends on it."""
        try:
            await self._bus.publish(subjects.decision("descheduler", decision.strategy), decision)
        except BusError as error:
            self._health.set_problem("decisions", f"decisions are not kept: {error}")
        else:
            self._health.set_problem("decisions", None)

    def _follow(self, fleet: Fleet, landings: Sequence[ReplacementPlaced], now: float) -> Followed:
        """What has become of earlier moves, and which nodes are left alone for it."""
        reliefs = self._memory.judged(fleet.nodes, self._configured.load.shortest, now)
        for relief in reliefs:
            self._telemetry.reliefs.labels("better" if relief.reduced else "no_better").inc()
        resting = resting_nodes(self._memory.cool_downs, now)
        assumed = told(self._memory.assumptions)
        self._telemetry.resting_nodes.set(len(resting))
        self._telemetry.assumed_moves.set(len(assumed))
        named = "; ".join(f"{each.node} for {each.until - now:.0f} s: {each.why}" for each in resting[:NAMED_NODES])
        more = f"; and {len(resting) - NAMED_NODES} more" if len(resting) > NAMED_NODES else ""
        self._health.set_problem("resting", f"nodes are left alone: {named}{more}" if resting else None)
        return Followed(landings=landings, reliefs=reliefs, resting=resting, assumed=assumed)
