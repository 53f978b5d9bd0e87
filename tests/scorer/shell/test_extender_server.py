"""The HTTP server for kube-scheduler: valid requests, and everything else it may receive."""

import asyncio
import io
import json
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog
from scorer.clusters import a_pod
from scorer.extender_bodies import INVALID, NOT_JSON, SECRET, a_body, nodes
from scorer.running import Running, Start, fill, settings_for

from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.runtime.configuration import ConfigurationError
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.settings import ScorerSettings


async def post(running: Running, verb: str, body: Any, **options: Any) -> tuple[int, Any]:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{running.url}/{verb}", data=data, **options) as response,
    ):
        assert response.content_type == "application/json"
        return response.status, await response.json()


async def test_prioritize_returns_one_integer_per_host(start: Start) -> None:
    """A list of Host and Score, in the order of the request; unknown and overfull nodes at 0."""
    running = await start(msgspec.structs.replace(settings_for(), policy=WaterLevel()))
    await fill(running)

    status, response = await post(running, "prioritize", a_body(NodeNames=["node-b", "node-c", "node-a", "nowhere"]))

    assert status == 200
    assert response == [
        {"Host": "node-b", "Score": 1},
        {"Host": "node-c", "Score": 0},
        {"Host": "node-a", "Score": 10},
        {"Host": "nowhere", "Score": 0},
    ]
    assert {type(each["Score"]) for each in response} == {int}  # 1.0 would fail in Go


async def test_a_repeated_host_is_returned_once(start: Start) -> None:
    """As in the request, each name at its first position."""
    running = await start(settings_for())
    await fill(running)

    _, response = await post(running, "prioritize", a_body(NodeNames=["node-b", "node-a", "node-b"]))

    assert [each["Host"] for each in response] == ["node-b", "node-a"]


async def test_a_maximum_score_of_100_distinguishes_more_nodes(start: Start) -> None:
    """`maxScore: 100`: the best node gets 100, and nodes that are equal in 0..10 differ."""
    cores = {"node-a": 1.0, "node-b": 1.2, "node-c": 6.0, "node-d": 9.9}
    names = [*cores, "nowhere"]
    seen = []
    for max_score in (10, 100):
        running = await start(settings_for(max_score=max_score))
        await fill(running, cores)
        _, response = await post(running, "prioritize", a_body(NodeNames=names))
        seen.append([each["Score"] for each in response])

    coarse, fine = seen
    assert (coarse[0], coarse[3:]) == (10, [0, 0])
    assert (max(fine), fine[3:]) == (100, [0, 0])
    assert coarse[0] == coarse[1]
    assert fine[0] != fine[1]
    assert min(fine[:3]) == 10


async def test_without_data_every_node_has_the_same_score(start: Start) -> None:
    """kube-scheduler decides alone."""
    running = await start(settings_for())

    status, response = await post(running, "prioritize", a_body(NodeNames=["x", "y"]))

    assert status == 200
    assert len({each["Score"] for each in response}) == 1


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("body", [*INVALID.values(), *NOT_JSON.values()], ids=[*INVALID, *NOT_JSON])
async def test_invalid_bodies_get_a_json_error(start: Start, verb: str, body: Any) -> None:
    """400 with a reason that quotes nothing of the body; the next request is served."""
    running = await start(settings_for())
    await fill(running)

    with structlog.testing.capture_logs() as logs:
        status, response = await post(running, verb, body)

    assert status == 400
    assert set(response) == {"Error"}
    assert SECRET not in str(logs) + str(response)
    assert (await post(running, verb, a_body()))[0] == 200


async def test_a_pod_of_the_maximum_size_is_accepted(start: Start) -> None:
    """etcd stores up to 1.5 MiB, with the names of 5,000 nodes; the default limit of aiohttp is 1 MiB."""
    running = await start(settings_for())
    await fill(running)
    body = a_body(NodeNames=[f"ip-10-0-{n // 256}-{n % 256}.eu-central-1.compute.internal" for n in range(5_000)])
    body["Pod"]["metadata"]["annotations"] = {"long": "x" * (3 * 2**19)}

    assert (await post(running, "prioritize", body))[0] == 200


async def test_a_body_above_two_mebibytes_is_refused(start: Start) -> None:
    """A larger maximum is a setting."""
    body = a_body()
    body["Pod"]["metadata"]["annotations"] = {"long": "x" * 2**21}
    small, large = await start(settings_for()), await start(settings_for(max_body_bytes=2**22))

    assert (await post(small, "prioritize", body))[0] == 413
    assert (await post(large, "prioritize", body))[0] == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_a_hundred_mebibytes_is_refused(start: Start, chunked: bool) -> None:
    """With 413 in JSON, without keeping it in memory; the next request is served."""
    running = await start(settings_for())
    await fill(running)
    piece = b" " * 2**20

    async def pieces() -> Any:
        for _ in range(100):
            yield piece

    headers = {} if chunked else {"Content-Length": str(100 * 2**20)}
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        try:
            async with session.post(f"{running.url}/prioritize", data=pieces(), headers=headers) as response:
                assert response.status == 413
                assert "Error" in await response.json()
        except aiohttp.ClientOSError:
            pass  # the server closed the connection while the client was sending: also a refusal

    assert (await post(running, "prioritize", a_body()))[0] == 200


async def test_a_too_large_content_length_is_refused_at_once(start: Start) -> None:
    """Before the body is sent."""
    running = await start(settings_for())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n")

    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()

    assert b" 413 " in line


async def test_other_methods_and_paths_get_a_json_error(start: Start) -> None:
    """GET and unknown paths."""
    running = await start(settings_for())
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{running.url}/prioritize") as response:
            assert (response.status, "Error" in await response.json()) == (405, True)
        async with session.post(f"{running.url}/bind") as response:
            assert (response.status, "Error" in await response.json()) == (404, True)


async def test_compressed_bodies_are_refused(start: Start) -> None:
    """A few bytes can decompress to gigabytes."""
    running = await start(settings_for())

    status, _ = await post(running, "prioritize", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    assert status == 415


async def test_a_body_that_is_not_sent_times_out(start: Start) -> None:
    """After the deadline the caller gets an error."""
    running = await start(settings_for(deadline=0.05))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b'POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"Pod"')

    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()

    assert b" 503 " in line


async def test_requests_above_the_limit_are_refused(start: Start) -> None:
    """With 503 at once; when the others are done, requests are served again."""
    running = await start(settings_for(concurrency=1))
    await fill(running)
    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
    await writer.drain()

    async with asyncio.timeout(60):
        while (await post(running, "prioritize", a_body()))[0] != 503:
            pass
        writer.close()
        while (await post(running, "prioritize", a_body()))[0] != 200:
            pass


@pytest.mark.parametrize(("seconds", "different"), [(4.9, True), (5.1, False)])
async def test_a_request_that_took_too_long_to_send_gets_neutral_scores(
    start: Start, seconds: float, different: bool
) -> None:
    """After the deadline (here 5 s) every host gets the same score."""
    running = await start(settings_for())
    await fill(running)
    body = json.dumps(a_body()).encode()
    head = f"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n" + head.encode() + body[:100])
    await reader.readuntil(b"}")  # the first request is finished, so the second one is being read
    await running.clock.advance(seconds)
    writer.write(body[100:])
    response = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()

    assert [each["Host"] for each in response] == ["node-a", "node-b"]
    assert (len({each["Score"] for each in response}) == 2) == different
    late = running.metrics.get_sample_value("equipoise_scorer_neutral_total", {"reason": "late"})
    assert late == (None if different else 1.0)


async def test_a_late_request_gets_neutral_scores(start: Start) -> None:
    """And refuses no node."""
    running = await start(settings_for())
    await fill(running)
    response = running.scorer.prioritize(a_pod(), ["node-a", "node-b"], late=True)

    assert response.neutral
    assert "too late" in response.why
    assert running.scorer.filter(a_pod(), ["node-a", "node-c"], late=True).refused == {}


async def test_filter_refuses_nothing_by_default(start: Start) -> None:
    """A filterVerb in kube-scheduler is not enough."""
    running = await start(settings_for())
    await fill(running)

    status, response = await post(running, "filter", a_body(NodeNames=["node-a", "node-c"]))

    assert status == 200
    assert (response["NodeNames"], response["FailedAndUnresolvableNodes"]) == (["node-a", "node-c"], {})


async def test_filter_refuses_hot_nodes(start: Start) -> None:
    """In FailedAndUnresolvableNodes, but never all nodes; a request with objects gets objects, and is a problem."""
    running = await start(settings_for(filter=True))
    await fill(running)

    _, some = await post(running, "filter", a_body(NodeNames=["node-a", "node-c", "nowhere"]))
    _, last = await post(running, "filter", a_body(NodeNames=["node-c"]))
    _, objects = await post(running, "filter", a_body(NodeNames=None, Nodes=nodes("node-a", "node-c")))
    problems = running.health.problems
    await post(running, "filter", a_body(NodeNames=["node-c"]))

    assert some["NodeNames"] == ["node-a", "nowhere"]
    assert some["FailedAndUnresolvableNodes"] == {"node-c": "cpu load would be 95.0%, above 65%"}
    assert some["FailedNodes"] == {}
    assert last["NodeNames"] == ["node-c"]
    assert [each["metadata"]["name"] for each in objects["Nodes"]["items"]] == ["node-a"]
    assert "nodeCacheCapable" in problems[0]
    assert running.health.problems == []


async def test_connections_are_kept_open(start: Start) -> None:
    """kube-scheduler uses one connection; the server does not close it."""
    running = await start(settings_for())
    await fill(running)
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(3):
            async with session.post(f"{running.url}/prioritize", json=a_body()) as response:
                assert response.headers.get("Connection") != "close"


async def test_a_stopping_scorer_closes_its_port(start: Start) -> None:
    """A refused connection costs kube-scheduler nothing; an open port without responses costs its throughput."""
    running = await start(settings_for())
    port = running.port
    await running.stop()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_address_in_use_is_a_configuration_error(start: Start) -> None:
    """That names the setting."""
    running = await start(settings_for())
    second = await start(ScorerSettings(listen=f"127.0.0.1:{running.port}"))

    assert second.task is not None
    error = second.task.exception()
    assert isinstance(error, ConfigurationError)
    assert "scorer.listen" in str(error)
    second.task = asyncio.create_task(asyncio.sleep(0))


async def test_a_missing_certificate_is_a_configuration_error(start: Start) -> None:
    """That names the setting."""
    running = await start(settings_for(tls=ServerTls(certificate_file="/nowhere", key_file="/nowhere")))

    assert running.task is not None
    assert "scorer.extender.tls" in str(running.task.exception())
    running.task = asyncio.create_task(asyncio.sleep(0))
