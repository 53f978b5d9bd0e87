"""Every request that reaches the scorer is recorded, with its response and the time that the scorer took."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from builders import NOW
from bus_worlds import eventually

from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.processes.loopback import PortBlock
from faults.extender_proxy import ExtenderProxy, Meter
from faults.fault_proxy import abort_connection, hold
from faults.history import ExtenderExchange
from faults.recording import Recorder

RESPONSE = '[{"Host":"node-a","Score":10}]'
TIMEOUT = 60


class Scorer:
    """A server, a proxy in front of it, and what it recorded."""

    def __init__(self, recorder: Recorder, proxy: ExtenderProxy, meter: Meter) -> None:
        self._recorder = recorder
        self.proxy = proxy
        self.meter = meter
        self.block = asyncio.Event()
        self.block.set()
        self.received = asyncio.Event()

    @property
    def exchanges(self) -> list[ExtenderExchange]:
        return self._recorder.exchanges

    async def respond(self, request: web.Request) -> web.Response:
        await request.read()
        self.received.set()
        await self.block.wait()
        return web.Response(text=RESPONSE)

    async def post(self) -> tuple[int, str]:
        async with (
            asyncio.timeout(TIMEOUT),
            aiohttp.ClientSession() as session,
            session.post(f"{self.proxy.url}/prioritize", json={"NodeNames": ["node-a"]}) as response,
        ):
            return response.status, await response.text()


@pytest.fixture
async def scorer(tmp_path: Path) -> AsyncIterator[Scorer]:
    ports = PortBlock()
    upstream, port = ports.take(), ports.take()
    recorder = Recorder(ManualClock(NOW), tmp_path / "audit.log")
    meter = Meter(recorder, ManualClock(NOW), os.getpid)
    async with ExtenderProxy(f"http://127.0.0.1:{upstream}", port, meter) as proxy:
        started = Scorer(recorder, proxy, meter)
        application = web.Application()
        application.router.add_post("/prioritize", started.respond)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", upstream).start()
        yield started
        started.block.set()
        await runner.cleanup()
    ports.release()


async def test_a_response_is_forwarded_and_recorded(scorer: Scorer) -> None:
    assert await scorer.post() == (200, RESPONSE)
    (exchange,) = scorer.exchanges
    assert (exchange.verb, exchange.hosts, exchange.status) == ("prioritize", ("node-a",), 200)
    assert exchange.body == RESPONSE.encode()
    assert exchange.scorer_runs


async def test_a_request_that_does_not_reach_the_scorer_is_not_recorded(scorer: Scorer) -> None:
    scorer.proxy.rule(abort_connection)
    with pytest.raises(aiohttp.ClientError):
        await scorer.post()
    assert scorer.exchanges == []


async def test_a_held_request_is_not_the_scorers_delay(scorer: Scorer) -> None:
    """Only the time between proxy and scorer counts."""
    rule = scorer.proxy.rule(hold)
    posting = asyncio.create_task(scorer.post())
    await eventually(lambda: rule.taken > 0)
    await asyncio.sleep(0.5)
    rule.lift()
    await posting
    assert scorer.exchanges[0].seconds < 0.5


async def test_a_caller_that_leaves_is_recorded(scorer: Scorer) -> None:
    """With the time that it waited for the scorer."""
    measuring = asyncio.create_task(scorer.meter.run())
    scorer.block.clear()
    posting = asyncio.create_task(scorer.post())
    async with asyncio.timeout(TIMEOUT):
        await scorer.received.wait()
        while_waiting = asyncio.get_running_loop().time()
        await asyncio.sleep(0.3)
        posting.cancel()
        await eventually(lambda: len(scorer.exchanges) > 0)
    (exchange,) = scorer.exchanges
    assert exchange.status is None
    assert not exchange.caller_waited
    assert 0.0 < exchange.seconds <= asyncio.get_running_loop().time() - while_waiting + 1.0
    measuring.cancel()


async def test_a_scorer_that_the_harness_broke_is_recorded_as_such(scorer: Scorer) -> None:
    """Also if it was broken only for a part of the exchange."""
    scorer.block.clear()
    posting = asyncio.create_task(scorer.post())
    async with asyncio.timeout(TIMEOUT):
        await scorer.received.wait()
        with scorer.meter.scorer_broken():
            pass
        scorer.block.set()
        await posting
    assert [exchange.scorer_runs for exchange in scorer.exchanges] == [False]
    await scorer.post()
    assert scorer.exchanges[1].scorer_runs


async def test_time_in_which_this_process_was_busy_does_not_count(scorer: Scorer) -> None:
    """The scorer's response may have arrived long before."""
    measuring = asyncio.create_task(scorer.meter.run())
    await asyncio.sleep(0)
    begun = asyncio.get_running_loop().time()
    with scorer.meter.exchange("prioritize", b"{}"):
        while asyncio.get_running_loop().time() < begun + 0.5:
            pass
    assert scorer.exchanges[0].seconds < 0.25
    measuring.cancel()
