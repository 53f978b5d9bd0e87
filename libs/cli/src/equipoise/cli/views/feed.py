"""Keeps a live state up to date from the bus, with messages of the last hours, from plans, and from the ledger."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

import msgspec
import structlog

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.outlook import refusals_now
from equipoise.binder.decisions.status import LedgerStatus, LimitUsage, ledger_status
from equipoise.binder.settings import BinderSettings
from equipoise.binder.state.ledger import Ledger
from equipoise.cli.bus.cluster import BusCluster, bus_cluster, plan_cluster
from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.consolidate.prices import consolidation_request
from equipoise.cli.effective.reading import is_of_its_service, read_effective
from equipoise.cli.effective.running import running_configurations
from equipoise.cli.effective.settings import file_settings, known_settings
from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.options import ClusterOptions
from equipoise.cli.plan.summary import gain_and_cost, plan_sentence
from equipoise.cli.plan.waiting import waiting_nodes
from equipoise.cli.status.in_effect import effective_lines
from equipoise.cli.status.run import limits_of, stored_ledger
from equipoise.cli.views.history import MAX_REVIEW_AGE
from equipoise.cli.views.moves import MAX_MOVES
from equipoise.cli.views.rows import Connection, LimitsRow, PlanRow, SavingsRow
from equipoise.cli.views.savings import savings_row
from equipoise.cli.views.state import MAX_PROCESSES, LiveState
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.subjects import PLAN_CONSOLIDATION, PLAN_PREVIEW, PREFIX
from equipoise.contracts.configuration.prices import PriceTable
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.consolidation import ConsolidationResponse
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import DRY_RUN, REAL, EffectiveConfiguration, Heartbeat
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.runtime.bus import Bus, BusError, Delivery, NoResponders, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import ConfigurationError, Nats, read_document, read_sections
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.bounded_files import read_bounded_text
from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

SHOWN = frozenset(
    {
        NodeUtilization, NodePlacement, UtilizationCycle, EvictionIntent, EvictionOutcome, DescheduleDecision,
        Heartbeat, ClusterReview, EffectiveConfiguration,
    }
)  # fmt: skip
"""The messages that the view is made of."""

TICK_SECONDS = 1.0
PLAN_SECONDS, PLAN_TIMEOUT = 30.0, 20.0
"""Seconds between two plans, and the timeout of one. With 5,000 nodes a plan takes seconds."""

SAVINGS_SECONDS, SAVINGS_TIMEOUT = 600.0, 90.0
"""Seconds between two answers of which nodes could go, and the timeout of one. With 5,000 nodes it takes half a minute,
and forecasts change slowly."""

LEDGER_SECONDS = 10.0
DECISIONS_SECONDS, OUTCOMES_SECONDS = 3_600.0, 86_400.0
"""Seconds of evaluations and of outcomes that are read back.

In a large cluster a day of evaluations has hundreds of MiB.
"""

LATEST = (subjects.node_placement("*"), subjects.node_utilization("*"), subjects.utilization_cycle("*"))
"""The subjects of which streams retain the last message."""

READ_BACK_SECONDS = 20.0
"""The timeout for reading back all messages. Those that are not read by then are missing."""

MAX_EARLY = 50_000
"""The largest number of new messages that are kept while the last hours are read back."""

MAX_LIMITS, MAX_PLANNED = 100, 200

NO_LEADER = "no descheduler leads, and only the leader has a plan"


class KnownLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger, with the limits that binders run with."""

    ledger: Ledger
    limits: Limits
    at: float
    """The time of the API server at which the ledger was read."""

    pods: int | None
    """The number of pods of the cluster; None if unknown."""


class LiveFeed:
    """A live state with its sources."""

    def __init__(
        self, server: Nats, options: ClusterOptions, clock: Clock, *, prices: PriceTable | None = None
    ) -> None:
        """`prices`: None: those of the descheduler. Raises InvalidInput and ConfigurationError for invalid options."""
        self._server, self._options, self._clock = server, options, clock
        self._savings_request = consolidation_request(prices)
        file = options.configuration
        self._file = None if file is None else file_settings(file, os.environ)
        self._effective: dict[tuple[str, str], EffectiveConfiguration] = {}
        self._errors = BusErrors(clock)
        self._cluster: BusCluster = bus_cluster(options, server)
        self._lease_uid = ""
        self._last_plan: PlanResponse | None = None
        self._ledger: KnownLedger | None = None
        self._early: list[msgspec.Struct] | None = []
        self.state = LiveState(_load_settings(options))
        self.bus: Bus | None = None
        """None until it is connected."""

    async def run(self, on_tick: Callable[[], object], *, watched: Callable[[], bool]) -> None:
        """Keep the state up to date until cancelled. `on_tick` is called each second, after the state was updated.

        Plans and the ledger are read only while the view is watched: a plan costs the descheduler seconds. Raises
        BusError if the server rejects the credentials.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_bus(watched))
            tasks.create_task(self._follow_ledger(watched))
            tasks.create_task(self._follow_savings(watched))
            while True:
                self._show_connection()
                if self._early is None:
                    self.state.tick(self._clock.now())
                on_tick()
                await self._clock.sleep(TICK_SECONDS)

    @property
    def ready(self) -> bool:
        """Whether the bus is connected and the last hours were read back."""
        return self.bus is not None and self.bus.connected and self._early is None

    def _show_connection(self) -> None:
        problem = ""
        if self.bus is None or not self.bus.connected:
            reasons = self._errors.problems if self.bus is None else self.bus.problems
            problem = "; ".join(reasons) or "connecting"
        elif self._early is not None:
            problem = "reading the last hours"
        self.state.show(Connection(cluster=str(self._cluster), server=self._server.shown_url, problem=problem))

    # -- the bus

    async def _follow_bus(self, watched: Callable[[], bool]) -> None:
        async with connect(self._server, "tap", clock=self._clock, errors=self._errors) as bus:
            for channel in CHANNELS:
                if channel.message in SHOWN:
                    await bus.subscribe(channel.pattern, channel.message, self._on_message)
            self.bus = bus
            await self._read_back()
            early, self._early = self._early or [], None
            for message in early:
                self.state.apply(message, self._clock.now())
            while True:
                if watched() and bus.connected:
                    self.state.show(await self._plan(bus))
                    await self._clock.sleep(PLAN_SECONDS)
                await self._clock.sleep(TICK_SECONDS)

    async def _on_message(self, delivery: Delivery[Any]) -> None:
        message = delivery.message
        if isinstance(message, EffectiveConfiguration | Heartbeat) and not is_of_its_service(message, delivery.subject):
            return
        if isinstance(message, EffectiveConfiguration):
            self._show_configuration(message)
        elif self._early is None:
            self.state.apply(message, self._clock.now())
        elif len(self._early) < MAX_EARLY:
            self._early.append(message)

    def _status(self, stored: Ledger | LedgerStatus, limits: Limits | None, now: float) -> LedgerStatus:
        self._ledger = None
        if isinstance(stored, LedgerStatus):
            return stored
        pods = self._pods()
        if limits is not None:
            self._ledger = KnownLedger(ledger=stored, limits=limits, at=now, pods=pods)
        return ledger_status(stored, limits, now, cluster_pods=pods)

    def _pods(self) -> int | None:
        """The number of pods of all nodes; None until all nodes are known."""
        counts = [row.pods for row in self.state.rows]
        if not counts or None in counts:
            return None
        return sum(count for count in counts if count is not None)

    def _show_configuration(self, message: EffectiveConfiguration) -> None:
        process = message.service, message.id
        known = self._effective.get(process)
        if known is not None and message.at < known.at:
            return
        published_at = {key: each.at for key, each in self._effective.items() if key[0] == message.service}
        if known is None and len(published_at) >= MAX_PROCESSES:
            self._effective.pop(min(published_at, key=published_at.__getitem__))
        self._effective[process] = message
        if message.service == "collector" and not message.stopped:
            with suppress(ConfigurationError):  # another version may have values that this one cannot read
                self.state.use(known_settings(message.settings.get("load", {}), LoadSettings, "load"))

    async def _read_back(self) -> None:
        """Replay the messages of the last hours in the order of time, so that the history has points and frames of that
        time."""
        now = self._clock.now()
        try:
            async with asyncio.timeout(READ_BACK_SECONDS):
                for effective in await read_effective(self._server, self._clock):
                    self._show_configuration(effective)
                async for message in self._retained(f"{PREFIX}.advice.cluster.*.*", now - MAX_REVIEW_AGE):
                    self.state.apply(message, now)
                outcomes: deque[msgspec.Struct] = deque(maxlen=MAX_MOVES)
                async for message in self._retained(f"{PREFIX}.eviction.outcome.*.*", now - OUTCOMES_SECONDS):
                    outcomes.append(message)
                for message in outcomes:
                    self.state.apply(message, now)
                decisions = self._retained(subjects.decision("descheduler", "*"), now - DECISIONS_SECONDS)
                async for message in decisions:
                    assert isinstance(message, DescheduleDecision)
                    if message.evaluated_at <= now:
                        self.state.apply(message, message.evaluated_at)
                        self.state.tick(message.evaluated_at)
                for pattern in LATEST:
                    async for message in self._retained(pattern, 0.0):
                        self.state.apply(message, now)
        except (BusError, TimeoutError) as error:
            log.warning("the last hours could not be read", error=str(error) or "no response in time")

    async def _retained(self, pattern: str, since: float) -> AsyncGenerator[msgspec.Struct, None]:
        async with aclosing(retained_messages(self._server, pattern, since=since, clock=self._clock)) as messages:
            async for _, message in messages:
                yield message

    async def _plan(self, bus: Bus) -> PlanRow:
        try:
            plan = await bus.request(PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=PLAN_TIMEOUT)
        except NoResponders:
            return PlanRow(problem=NO_LEADER)
        except BusError as error:
            return PlanRow(problem=str(error))
        if plan.leader.lease_uid != self._lease_uid:
            with suppress(InvalidInput):
                self._cluster = await plan_cluster(self._options, plan.leader.lease_uid, self._server)
                self._lease_uid = plan.leader.lease_uid
        self._last_plan = plan
        self.state.plan(plan)
        return plan_row(plan, self._ledger)

    async def _follow_savings(self, watched: Callable[[], bool]) -> None:
        while True:
            if watched() and self.ready and self.bus is not None:
                row = await self._savings(self.bus)
                self.state.show(row)
                await self._clock.sleep(PLAN_SECONDS if row.problem else SAVINGS_SECONDS)
            await self._clock.sleep(TICK_SECONDS)

    async def _savings(self, bus: Bus) -> SavingsRow:
        try:
            return savings_row(
                await bus.request(
                    PLAN_CONSOLIDATION, self._savings_request, ConsolidationResponse, timeout=SAVINGS_TIMEOUT
                )
            )
        except NoResponders:
            return SavingsRow(problem=NO_LEADER)
        except BusError as error:
            return SavingsRow(problem=str(error))

    # -- the ledger

    async def _follow_ledger(self, watched: Callable[[], bool]) -> None:
        try:
            connection = self._options.connection()
        except InvalidInput as error:
            self.state.show(LimitsRow(problem=f"the eviction ledger is in the API server: {error.message}"))
            return
        while True:
            try:
                async with connect_kube(connection, self._options.command, self._clock) as kube:
                    while True:
                        if watched():
                            messages, now = self._effective.values(), self._clock.now()
                            running = running_configurations(messages, "binder", now)
                            limits = limits_of(running[0]) if running else None
                            stored = await stored_ledger(kube, connection.namespace)
                            status = self._status(stored, limits, kube.server_time(self._clock.now()))
                            if self._last_plan is not None:
                                self.state.show(plan_row(self._last_plan, self._ledger))
                            lines = effective_lines(list(messages), self._file, str(self._options.configuration), now)
                            self.state.show(msgspec.structs.replace(limits_row(status), configuration=list(lines)))
                            await self._clock.sleep(LEDGER_SECONDS)
                        await self._clock.sleep(TICK_SECONDS)
            except KubeError as error:
                self.state.show(LimitsRow(problem=str(error)))
                await self._clock.sleep(LEDGER_SECONDS)


def plan_row(plan: PlanResponse, known: KnownLedger | None = None) -> PlanRow:
    """The row of a plan. `known`: the ledger; None if it is unknown which moves the limits allow."""
    waiting = waiting_nodes(plan)
    return converted(
        plan,
        PlanRow,
        moves=plan.moves[:MAX_PLANNED],
        refused=plan.refused[:MAX_PLANNED],
        sentence=plan_sentence(plan),
        gains_and_costs={move.pod_name: text for move in plan.moves[:MAX_PLANNED] if (text := gain_and_cost(move))},
        refusals=_refusals(plan, known),
        dry_run_moves=len(plan.dry_run_moves),
        waiting=len(waiting),
        wait=min(waiting.values(), default=0) * plan.interval,
    )


def _refusals(plan: PlanResponse, known: KnownLedger | None) -> dict[str, str]:
    if known is None or plan.evictions not in (REAL, DRY_RUN):
        return {}
    moves = plan.moves[:MAX_PLANNED]
    whys = refusals_now(
        moves, known.ledger, known.limits, known.at, dry_run=plan.evictions == DRY_RUN, cluster_pods=known.pods
    )
    return {move.pod_name: why for move, why in zip(moves, whys, strict=True) if why}


def limits_row(status: LedgerStatus) -> LimitsRow:
    if status.evictions == "unknown":
        return LimitsRow(problem=status.why)
    return converted(status, LimitsRow, usage=sorted(status.usage, key=fullness, reverse=True)[:MAX_LIMITS])


def fullness(usage: LimitUsage) -> float:
    """The used share of a limit; 0 if its maximum is unknown."""
    return usage.counted / usage.allowed if usage.allowed else 0.0


def _load_settings(options: ClusterOptions) -> LoadSettings:
    plain = {} if options.configuration is None else read_document(read_bounded_text(options.configuration))
    shared, _ = read_sections(plain, {"binder": BinderSettings}, os.environ)
    return shared.load
