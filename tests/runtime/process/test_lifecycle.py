"""A service with one configuration, everything in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.health import HEARTBEAT_PERIOD, EffectiveConfiguration, Heartbeat
from equipoise.runtime.configuration import ConfigurationError, load_configuration
from equipoise.runtime.process.lifecycle import RETRY_PERIOD, Process, Runtime, Start
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock, settle
from equipoise.testbed.memory.kube import MemoryKube


class AnySection(Section, frozen=True, kw_only=True):
    """What every section has."""

    health: str = "127.0.0.1:0"


class World:
    """The connections of a service; `opened` and `closed` count them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory_bus = MemoryBus(self.clock)
        self.memory_kube = MemoryKube(self.clock)
        self.seen: list[str] = []
        self.stop = asyncio.Event()
        self.process = Process(
            service="scorer",
            configuration=load_configuration(None, "scorer", AnySection, {}),
            clock=self.clock,
            metrics=CollectorRegistry(),
            bus=self.bus,
            kube=self.kube,
        )

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[MemoryBus]:
        yield self.memory_bus
        self.seen.append("bus closed")

    @asynccontextmanager
    async def kube(self) -> AsyncIterator[MemoryKube]:
        try:
            yield self.memory_kube
        finally:
            self.seen.append("kube closed")

    def begin(self, start: Start[AnySection]) -> asyncio.Task[int]:
        return asyncio.create_task(self.process.run(start, self.stop))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.stop.set()


class Unreachable(MemoryBus):
    """Never opens."""

    async def __aenter__(self) -> "Unreachable":
        await asyncio.Event().wait()
        return self

    async def __aexit__(self, *error: object) -> None: ...


async def for_ever(runtime: Runtime[AnySection]) -> None:
    runtime.health.warmed_up()
    await asyncio.Event().wait()


async def until(condition: str, world: World) -> None:
    """Real sockets are opened on the way: give them turns of the loop."""
    for _ in range(200):
        if condition in str(world.process.health.report().waiting_for) or (
            condition == "ready" and world.process.health.report().ready
        ):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never {condition}: {world.process.health.report()}")


async def test_a_service_runs_until_it_is_stopped_and_ends_in_order(world: World) -> None:
    """Unready first, then the service is cancelled, then the connections are closed; code 0."""

    async def start(runtime: Runtime[AnySection]) -> None:
        assert runtime.kube is world.memory_kube
        runtime.health.warmed_up()
        try:
            await asyncio.Event().wait()
        finally:
            world.seen.append(f"service ended, ready={runtime.health.report().ready}")

    running = world.begin(start)
    await until("ready", world)
    world.stop.set()
    assert await running == 0
    assert world.seen[0] == "service ended, ready=False"
    assert "kube closed" in world.seen


@pytest.mark.parametrize("how", ["raises", "returns"])
async def test_a_service_that_fails_or_ends_is_a_failure(world: World, how: str) -> None:
    """Code 1, also for a service that returns: it should run for ever."""

    async def start(runtime: Runtime[AnySection]) -> None:
        if how == "raises":
            raise ValueError("broken")

    with capture_logs() as lines:
        assert await world.begin(start) == 1
    assert lines[-1]["event"] == "failed"
    assert lines[-1]["error"] == ("ValueError: broken" if how == "raises" else "RuntimeError: scorer ended by itself")
    assert lines[-1]["exc_info"] is not None


async def test_readiness_names_why_the_bus_cannot_be_opened(world: World) -> None:
    """Not only that the service waits for it: a rejected certificate is not in any log that an operator reads first."""
    world.process = Process(
        service="scorer",
        configuration=load_configuration(None, "scorer", AnySection, {}),
        clock=world.clock,
        metrics=CollectorRegistry(),
        bus=lambda: Unreachable(world.clock),
        kube=world.kube,
        bus_problems=lambda: ["certificate has expired"],
    )
    running = world.begin(for_ever)
    await until("nats", world)
    assert world.process.health.report().problems == ["certificate has expired"]
    world.stop.set()
    assert await running == 0


@pytest.mark.parametrize(("url", "named"), [("nats://nats:4222", True), ("tls://nats:4222", False)])
async def test_readiness_names_a_bus_that_others_may_read(world: World, url: str, named: bool) -> None:
    """The service works all the same."""
    world.process = Process(
        service="scorer",
        configuration=load_configuration(None, "scorer", AnySection, {"EQUIPOISE_NATS__URL": url}),
        clock=world.clock,
        metrics=CollectorRegistry(),
        bus=world.bus,
        kube=world.kube,
    )
    running = world.begin(for_ever)
    await until("ready", world)
    problems = world.process.health.report().problems
    assert [problem.startswith(f"messages and passwords are sent to {url} unencrypted") for problem in problems] == (
        [True] if named else []
    )
    world.stop.set()
    assert await running == 0


async def test_a_configuration_that_can_never_work_ends_the_process(world: World) -> None:
    """A fault that shows only at the start (a port, a policy) is reported like any other error of the configuration."""

    async def start(runtime: Runtime[AnySection]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_fault())

    async def _fault() -> None:
        raise ConfigurationError("scorer.policy: unheard of")

    with pytest.raises(ConfigurationError, match=r"scorer\.policy"):
        await world.begin(start)


async def test_an_api_server_that_is_away_is_waited_for(world: World) -> None:
    """Unready with the reason, with a retry every few seconds; ready after any response, even an error."""
    world.memory_kube.refuse("get", status=0)
    world.begin(for_ever)
    await until("kubernetes", world)
    await settle()
    requested = len(world.memory_kube.calls)
    await world.clock.advance(RETRY_PERIOD)
    assert len(world.memory_kube.calls) == requested + 1
    assert world.process.health.report().problems == ["by the test"]
    world.memory_kube.clear_faults()
    world.memory_kube.refuse("get", status=403)
    await world.clock.advance(RETRY_PERIOD)
    await until("ready", world)
    assert world.process.health.report().problems == []


async def test_a_service_is_not_ready_while_the_api_server_does_not_respond(world: World) -> None:
    """With the reason, until a request succeeds."""
    world.begin(for_ever)
    await until("ready", world)
    world.memory_kube.problem = "no request to the API server has succeeded for 60 s: wrong certificate"
    report = world.process.health.report()
    assert (["kubernetes"], {"nats": True, "kubernetes": False}) == (report.waiting_for, report.connections)
    assert [world.memory_kube.problem] == report.problems
    world.memory_kube.problem = ""
    assert world.process.health.report().ready


async def test_a_stop_while_waiting_is_heeded(world: World) -> None:
    """Nobody has to wait for a server that never comes."""
    world.memory_kube.refuse("get", status=0)
    running = world.begin(for_ever)
    await until("kubernetes", world)
    world.stop.set()
    assert await running == 0


async def test_a_stop_is_not_lost_when_the_client_loses_it(world: World) -> None:
    """A client may connect although it was canceled. The service does not start, and the connection is closed."""
    connecting = asyncio.Event()

    @asynccontextmanager
    async def loses_a_cancellation() -> AsyncIterator[MemoryBus]:
        connecting.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        yield world.memory_bus

    async def start(runtime: Runtime[AnySection]) -> None:
        world.seen.append("started")

    world.process = Process(
        service="scorer",
        configuration=load_configuration(None, "scorer", AnySection, {}),
        clock=world.clock,
        metrics=CollectorRegistry(),
        bus=loses_a_cancellation,
        kube=world.kube,
    )
    running = world.begin(start)
    await connecting.wait()
    world.stop.set()

    assert await running == 0
    assert world.seen == ["kube closed"]


async def test_readiness_follows_the_bus(world: World) -> None:
    """A lost connection makes a process unready, its return makes it ready again."""
    world.begin(for_ever)
    await until("ready", world)
    world.memory_bus.disconnect()
    assert world.process.health.report().waiting_for == ["nats"]
    await world.memory_bus.reconnect()
    assert world.process.health.report().ready


async def test_a_heartbeat_contains_the_state_of_the_service(world: World) -> None:
    """At once and every ten seconds; a bus that is away is no reason to fail."""
    running = world.begin(for_ever)
    await until("ready", world)
    await world.clock.advance(HEARTBEAT_PERIOD)
    world.process.health.set_problem("prometheus", "away")
    world.process.health.evictions = "dry run"
    world.process.health.shard = "blue"
    world.memory_bus.disconnect()
    await world.clock.advance(HEARTBEAT_PERIOD)
    await world.memory_bus.reconnect()
    await world.clock.advance(HEARTBEAT_PERIOD)
    beats = world.memory_bus.published(Heartbeat, "equipoise.health.scorer.*")
    assert [beat.problems for beat in beats] == [[], [], ["away"]]
    assert [(beat.evictions, beat.shard) for beat in beats] == [("", ""), ("", ""), ("dry run", "blue")]
    assert beats[-1].ready
    assert beats[-1].id == world.process.identity
    assert not running.done()


@pytest.mark.parametrize(("skew", "direction"), [(60.0, "ahead of"), (-60.0, "behind")])
async def test_a_clock_of_the_api_server_that_differs_is_a_problem(world: World, skew: float, direction: str) -> None:
    """In /readyz and in the heartbeat, with the seconds, until it is right."""
    world.begin(for_ever)
    await until("ready", world)
    for seconds in (skew, 9.0, skew, 0.0):
        world.memory_kube.skew = seconds
        await world.clock.advance(HEARTBEAT_PERIOD)
        problems = world.process.health.report().problems
        assert len(problems) == (seconds == skew)
        assert all(f"at least 60 s {direction} this one's" in text for text in problems)
        assert world.memory_bus.published(Heartbeat, "equipoise.health.scorer.*")[-1].problems == problems


async def test_the_configuration_in_effect_is_published_while_the_service_runs(world: World) -> None:
    """Its end is published before the bus is closed."""
    running = world.begin(for_ever)
    await until("ready", world)
    await settle()
    world.stop.set()
    assert await running == 0
    messages = world.memory_bus.published(EffectiveConfiguration, "equipoise.configuration.scorer.*")
    assert [(each.id, each.stopped) for each in messages] == [
        (world.process.identity, False),
        (world.process.identity, True),
    ]
    assert messages[0].settings["scorer"] == {"health": "127.0.0.1:0"}
