"""Readiness, problems, and the four HTTP paths."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from bus_worlds import eventually
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.probe import main as probe
from equipoise.runtime.process.health import Health, serving_health, split_address


@pytest.fixture
async def url(health: Health, metrics: CollectorRegistry) -> AsyncIterator[str]:
    async with serving_health("127.0.0.1:0", health, metrics, "1.2.3") as address:
        yield f"http://{address}"


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_idle_connections_neither_use_up_file_descriptors_nor_delay_a_probe(url: str) -> None:
    """Clients with hundreds of them keep 16 each; the connection of another client remains, and is used."""
    host, port = url.removeprefix("http://").split(":")
    prober = aiohttp.TCPConnector(local_addr=("127.0.0.9", 0), limit=1)
    connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    ended: list[asyncio.Task[bytes]] = []

    async with aiohttp.ClientSession(connector=prober) as session:
        async with session.get(f"{url}/healthz") as response:
            assert response.status == 200
        for client in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            for _ in range(100):
                connections.append(await asyncio.open_connection(host, int(port), local_addr=(client, 0)))
                ended.append(asyncio.create_task(connections[-1][0].read()))
        await eventually(lambda: sum(task.done() for task in ended) >= 3 * (100 - 16))
        assert (await get(f"{url}/healthz"))[0] == 200
        async with session.get(f"{url}/healthz") as response:
            assert response.status == 200
    for task, (_, writer) in zip(ended, connections, strict=True):
        task.cancel()
        writer.close()
    await asyncio.gather(*ended, return_exceptions=True)


def test_ready_is_connected_and_warmed_up_once(health: Health) -> None:
    """Either alone is not enough; what is missing is named."""
    connected = False
    health.require("nats", lambda: connected)
    assert health.report().waiting_for == ["nats", "warm-up"]
    health.warmed_up()
    assert health.report().waiting_for == ["nats"]
    connected = True
    assert health.report().ready


def test_a_data_problem_is_reported_and_leaves_the_process_ready(health: Health, metrics: CollectorRegistry) -> None:
    """A restart would not solve it; it is in the body and in a metric until it is resolved."""
    health.warmed_up()
    health.set_problem("prometheus", "Prometheus is away")
    health.include_problems(lambda: ["the stream is full"])
    assert health.report().ready
    assert health.report().problems == ["Prometheus is away", "the stream is full"]
    assert metrics.get_sample_value("equipoise_problem", {"key": "prometheus"}) == 1
    health.set_problem("prometheus", None)
    assert health.report().problems == ["the stream is full"]
    assert metrics.get_sample_value("equipoise_problem", {"key": "prometheus"}) is None


def test_a_problem_is_logged_when_it_changes_only(health: Health) -> None:
    """Said once when it begins, once when its text changes by more than a number, once when it ends."""
    with capture_logs() as lines:
        for text in (None, "a 1", "a 1", "a 2.5", "b 2", "b 10", None, None):
            health.set_problem("key", text)
    assert [line["event"] for line in lines] == ["problem", "problem", "problem resolved"]


async def test_readyz_follows_health_and_healthz_does_not(url: str, health: Health) -> None:
    """503 until ready and after the stop has begun, with the reason; /healthz only needs the event loop."""
    assert (await get(f"{url}/readyz"))[0] == 503
    health.warmed_up()
    health.leading = True
    status, body = await get(f"{url}/readyz")
    assert status == 200
    assert '"leading":true' in body
    assert '"configuration":"abc"' in body
    health.stop()
    status, body = await get(f"{url}/readyz")
    assert status == 503
    assert "stopping" in body
    assert (await get(f"{url}/healthz"))[0] == 200


async def test_metrics_and_version(url: str, metrics: CollectorRegistry) -> None:
    """The registry that was handed in is what is served."""
    Counter("equipoise_things", "Things.", registry=metrics).inc()
    assert "equipoise_things_total 1.0" in (await get(f"{url}/metrics"))[1]
    assert (await get(f"{url}/version"))[1] == '{"version": "1.2.3"}'
    assert (await get(f"{url}/debug"))[0] == 404


async def test_an_address_in_use_is_a_fault_of_the_configuration(url: str, health: Health) -> None:
    """Two services with one address: the second reports the address."""
    address = url.removeprefix("http://")
    with pytest.raises(ConfigurationError, match=address):
        async with serving_health(address, health, CollectorRegistry(), "1"):
            pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":80", ("", 80)), ("[::1]:80", ("::1", 80)), ("host:0", ("host", 0))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """Host and port; no host is every interface."""
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "80", "host", "host:", "host:x", "host:65536", "::1:80", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With examples."""
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:8081"):
        split_address(text)


async def test_the_probe_reports_by_its_exit_code(url: str, health: Health, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when ready, 1 when not or without a server, 2 when it is used wrongly."""
    assert await asyncio.to_thread(probe, [f"{url}/readyz"]) == 1
    assert "warm-up" in capsys.readouterr().err
    health.warmed_up()
    assert await asyncio.to_thread(probe, [f"{url}/readyz"]) == 0
    assert await asyncio.to_thread(probe, ["http://127.0.0.1:1/readyz"]) == 1
    for arguments in ([], ["https://127.0.0.1/"], ["127.0.0.1:80"], ["http://[::1"], ["http://h:x"]):
        assert probe(arguments) == 2
