"""The life of a service, in this process with everything in memory and as a program of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from equipoise.contracts.messages import Heartbeat
from equipoise.contracts.settings import Section
from equipoise.runtime.memory.bus import MemoryBus
from equipoise.runtime.memory.clock import ManualClock, settle
from equipoise.runtime.memory.kube import MemoryKube
from equipoise.runtime.nats_server import embedded_server
from equipoise.runtime.process import HEARTBEAT_PERIOD, RETRY_PERIOD, Process, Runtime, Start
from equipoise.runtime.settings import ConfigurationError, load_configuration


class AnySection(Section, frozen=True, kw_only=True):
    """What every section has."""

    health: str = "127.0.0.1:0"


class World:
    """A service's surroundings; `opened` and `closed` tell what became of the connections."""

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


async def test_a_configuration_that_can_never_work_ends_the_process(world: World) -> None:
    """A fault that shows only at the start (a port, a policy) is told like any other fault of the configuration."""

    async def start(runtime: Runtime[AnySection]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_fault())

    async def _fault() -> None:
        raise ConfigurationError("scorer.policy: unheard of")

    with pytest.raises(ConfigurationError, match=r"scorer\.policy"):
        await world.begin(start)


async def test_an_api_server_that_is_away_is_waited_for(world: World) -> None:
    """Unready with the reason, tried again every few seconds, ready once it answers, even if it answers no."""
    world.memory_kube.refuse("get", status=0)
    world.begin(for_ever)
    await until("kubernetes", world)
    await settle()
    asked = len(world.memory_kube.calls)
    await world.clock.advance(RETRY_PERIOD)
    assert len(world.memory_kube.calls) == asked + 1
    world.memory_kube.heal()
    world.memory_kube.refuse("get", status=403)
    await world.clock.advance(RETRY_PERIOD)
    await until("ready", world)


async def test_a_stop_while_waiting_is_heeded(world: World) -> None:
    """Nobody has to wait for a server that never comes."""
    world.memory_kube.refuse("get", status=0)
    running = world.begin(for_ever)
    await until("kubernetes", world)
    world.stop.set()
    assert await running == 0


async def test_readiness_follows_the_bus(world: World) -> None:
    """A lost connection makes a process unready, its return makes it ready again."""
    world.begin(for_ever)
    await until("ready", world)
    world.memory_bus.disconnect()
    assert world.process.health.report().waiting_for == ["nats"]
    await world.memory_bus.reconnect()
    assert world.process.health.report().ready


async def test_a_heartbeat_tells_how_it_is(world: World) -> None:
    """At once and every ten seconds; a bus that is away is no reason to fail."""
    running = world.begin(for_ever)
    await until("ready", world)
    await world.clock.advance(HEARTBEAT_PERIOD)
    world.process.health.problem("prometheus", "away")
    world.memory_bus.disconnect()
    await world.clock.advance(HEARTBEAT_PERIOD)
    await world.memory_bus.reconnect()
    await world.clock.advance(HEARTBEAT_PERIOD)
    beats = world.memory_bus.said(Heartbeat, "equipoise.health.scorer.*")
    assert [beat.problems for beat in beats] == [[], [], ["away"]]
    assert beats[-1].ready
    assert beats[-1].id == world.process.identity
    assert not running.done()


PROGRAM = """
import asyncio
from equipoise.contracts.settings import Section
from equipoise.runtime.process import Runtime, run

class Own(Section, frozen=True, kw_only=True):
    health: str = "127.0.0.1:0"

async def start(runtime: Runtime[Own]) -> None:
    await asyncio.Event().wait()

run("scorer", Own, start, kube=False)
"""


def program(text: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}
    return subprocess.Popen(
        [sys.executable, "-c", text], stderr=subprocess.PIPE, text=True, env={**inherited, **environment}
    )


async def heard(event: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait until the program logs this."""
    assert process.stderr is not None
    lines = []
    while line := await asyncio.to_thread(process.stderr.readline):
        lines.append(line)
        if (said := json.loads(line))["event"] == event:
            return dict(said)
    raise AssertionError(f"never {event}: {''.join(lines)}")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"EQUIPOISE_CONFIG": "/does/not/exist.yaml"}, "equipoise scorer: the file /does/not/exist.yaml"),
        ({"EQUIPOISE_SCORER__HELTH": "x"}, "equipoise scorer: EQUIPOISE_SCORER__HELTH"),
        ({"EQUIPOISE_SCORER__HEALTH": "x"}, "equipoise scorer: 'x' is no address"),
    ],
)
def test_a_wrong_configuration_is_exit_code_2_and_a_plain_message(environment: dict[str, str], message: str) -> None:
    """No traceback: the last line says what to put right."""
    with program(**environment) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert errors.splitlines()[-1].startswith(message)
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_without_a_bus_waits_says_so_and_stops_when_told(number: signal.Signals) -> None:
    """JSON lines on stderr; /readyz is 503; code 0 at the signal."""
    with program(EQUIPOISE_NATS__URL="nats://127.0.0.1:1") as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "waiting for the bus":
                break
        process.send_signal(number)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    lines += [json.loads(line) for line in rest.splitlines()]
    assert [line["event"] for line in lines if line["level"] == "info"] == ["starting", "health", "stopping", "stopped"]
    assert {line["service"] for line in lines} == {"scorer"}


STUBBORN = """
    runtime.health.warmed_up()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""


async def test_a_service_that_does_not_heed_its_end_is_ended(tmp_path: Path) -> None:
    """Kubernetes would kill it a little later anyway, without a word in the log."""
    text = PROGRAM.replace("\n    await asyncio.Event().wait()\n", STUBBORN)
    text = text.replace("kube=False", "kube=False, stop_limit=0.3")
    async with embedded_server(tmp_path) as url:
        process = program(text, EQUIPOISE_NATS__URL=url)
        try:
            await heard("warmed up", process)
            process.terminate()
            _, errors = await asyncio.to_thread(process.communicate, timeout=30)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 1
    assert "not stopped in time" in errors


async def test_a_running_program_can_be_asked() -> None:
    """Its address is in the log; not ready without a bus, alive nevertheless."""
    process = program(EQUIPOISE_NATS__URL="nats://127.0.0.1:1")
    try:
        address = (await heard("health", process))["address"]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/readyz") as answer:
                assert answer.status == 503
                assert "nats" in (await answer.json())["waiting_for"]
            async with session.get(f"http://{address}/healthz") as answer:
                assert answer.status == 200
            async with session.get(f"http://{address}/metrics") as answer:
                assert 'equipoise_build_info{service="scorer"' in await answer.text()
    finally:
        process.kill()
        process.communicate()
