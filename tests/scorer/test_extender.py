"""The HTTP door: good questions, and everything else that may come through it."""

import asyncio
import io
import json
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog
from builders import a_node_utilization, a_placement
from scorer.conftest import Running, Start, settings_for
from scorer.fleets import a_cycle, a_pod
from scorer.test_wire import BROKEN, RAW, SECRET, a_body, nodes

from equipoise.contracts.bus import subjects
from equipoise.runtime.configuration import ConfigurationError
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.settings import ExtenderTls, ScorerSettings

CORES = {"node-a": 2.0, "node-b": 6.0, "node-c": 9.0}


async def fill(running: Running, cores: dict[str, float] = CORES) -> None:
    for node, cpu in cores.items():
        await running.bus.publish(subjects.node_placement(node), a_placement(node))
        await running.bus.publish(subjects.node_utilization(node), a_node_utilization(node, cpu))
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(len(cores)))
    await running.bus.settled()


async def post(running: Running, verb: str, body: Any, **options: Any) -> tuple[int, Any]:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{running.url}/{verb}", data=data, **options) as response,
    ):
        assert response.content_type == "application/json"
        return response.status, await response.json()


async def test_prioritize_answers_one_integer_per_host(start: Start) -> None:
    """A list of Host and Score, in the order asked, unknown and overfull nodes at 0."""
    running = await start(msgspec.structs.replace(settings_for(), policy=WaterLevel()))
    await fill(running)

    status, answer = await post(running, "prioritize", a_body(NodeNames=["node-b", "node-c", "node-a", "nowhere"]))

    assert status == 200
    assert answer == [
        {"Host": "node-b", "Score": 1},
        {"Host": "node-c", "Score": 0},
        {"Host": "node-a", "Score": 10},
        {"Host": "nowhere", "Score": 0},
    ]
    assert {type(each["Score"]) for each in answer} == {int}  # 1.0 would fail in Go


async def test_each_host_is_answered_once(start: Start) -> None:
    """Also when it is asked about twice."""
    running = await start(settings_for())
    await fill(running)

    _, answer = await post(running, "prioritize", a_body(NodeNames=["node-b", "node-a", "node-b"]))

    assert [each["Host"] for each in answer] == ["node-b", "node-a"]


async def test_a_finer_resolution_is_for_an_entry_of_weight_1(start: Start) -> None:
    """`resolution: 100`: the best gets 100, and nodes that 0..10 cannot tell apart are told apart."""
    cores = {"node-a": 1.0, "node-b": 1.2, "node-c": 6.0, "node-d": 9.9}
    names = [*cores, "nowhere"]
    seen = []
    for resolution in (10, 100):
        running = await start(settings_for(resolution=resolution))
        await fill(running, cores)
        _, answer = await post(running, "prioritize", a_body(NodeNames=names))
        seen.append([each["Score"] for each in answer])

    coarse, fine = seen
    assert (coarse[0], coarse[3:]) == (10, [0, 0])
    assert (max(fine), fine[3:]) == (100, [0, 0])
    assert coarse[0] == coarse[1]
    assert fine[0] != fine[1]
    assert min(fine[:3]) == 10


async def test_without_any_data_every_node_is_equal(start: Start) -> None:
    """A scorer that knows nothing does not decide."""
    running = await start(settings_for())

    status, answer = await post(running, "prioritize", a_body(NodeNames=["x", "y"]))

    assert status == 200
    assert len({each["Score"] for each in answer}) == 1


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("body", [*BROKEN.values(), *RAW.values()], ids=[*BROKEN, *RAW])
async def test_bad_bodies_are_refused_in_json(start: Start, verb: str, body: Any) -> None:
    """400 with a reason; kube-scheduler goes on without us, and the next question is answered."""
    running = await start(settings_for())
    await fill(running)

    with structlog.testing.capture_logs() as logs:
        status, answer = await post(running, verb, body)

    assert status == 400
    assert set(answer) == {"Error"}
    assert SECRET not in str(logs) + str(answer)
    assert (await post(running, verb, a_body()))[0] == 200


async def test_two_mebibytes_are_answered(start: Start) -> None:
    """aiohttp's own limit is half of that."""
    running = await start(settings_for())
    await fill(running)
    body = a_body()
    body["Pod"]["metadata"]["annotations"] = {"long": "x" * 2**21}

    assert (await post(running, "prioritize", body))[0] == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_hundred_mebibytes_are_refused_without_being_kept(start: Start, chunked: bool) -> None:
    """413 in JSON, and the scorer answers on."""
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
            pass  # the door closed while the client still pushed: as good

    assert (await post(running, "prioritize", a_body()))[0] == 200


async def test_a_body_that_is_announced_too_large_is_not_waited_for(start: Start) -> None:
    """The answer comes before the body does."""
    running = await start(settings_for())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n")

    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()

    assert b" 413 " in line


async def test_other_methods_and_paths_are_refused_in_json(start: Start) -> None:
    """GET and unknown paths."""
    running = await start(settings_for())
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{running.url}/prioritize") as response:
            assert (response.status, "Error" in await response.json()) == (405, True)
        async with session.post(f"{running.url}/bind") as response:
            assert (response.status, "Error" in await response.json()) == (404, True)


async def test_compressed_bodies_are_refused(start: Start) -> None:
    """A few bytes can stand for gigabytes."""
    running = await start(settings_for())

    status, _ = await post(running, "prioritize", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    assert status == 415


async def test_a_body_that_does_not_come_is_not_waited_for(start: Start) -> None:
    """After the deadline the caller gets an error instead of silence."""
    running = await start(settings_for(deadline=0.05))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b'POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"Pod"')

    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()

    assert b" 503 " in line


async def test_too_many_questions_at_once_are_turned_away(start: Start) -> None:
    """Above the cap the answer is 503 at once; when the others are done there is room again."""
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


@pytest.mark.parametrize(("seconds", "told_apart"), [(4.9, True), (5.1, False)])
async def test_a_question_that_took_too_long_to_come_is_answered_neutrally(
    start: Start, seconds: float, told_apart: bool
) -> None:
    """Beyond the deadline (here 5 s) every host gets the same: an answer that costs nothing."""
    running = await start(settings_for())
    await fill(running)
    body = json.dumps(a_body()).encode()
    head = f"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n" + head.encode() + body[:100])
    await reader.readuntil(b"}")  # what came before is answered: what comes after it is being read
    await running.clock.advance(seconds)
    writer.write(body[100:])
    answer = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()

    assert [each["Host"] for each in answer] == ["node-a", "node-b"]
    assert (len({each["Score"] for each in answer}) == 2) == told_apart
    late = running.metrics.get_sample_value("equipoise_score_neutral_total", {"reason": "late"})
    assert late == (None if told_apart else 1.0)


async def test_a_late_question_is_answered_neutrally(start: Start) -> None:
    """And refuses no node."""
    running = await start(settings_for())
    await fill(running)
    answer = running.scorer.prioritize(a_pod(), ["node-a", "node-b"], late=True)

    assert answer.neutral
    assert "too late" in answer.why
    assert running.scorer.filter(a_pod(), ["node-a", "node-c"], late=True).refused == {}


async def test_filter_lets_everything_pass_unless_it_is_switched_on(start: Start) -> None:
    """Opt-in: a filterVerb alone refuses nothing."""
    running = await start(settings_for())
    await fill(running)

    status, answer = await post(running, "filter", a_body(NodeNames=["node-a", "node-c"]))

    assert status == 200
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == (["node-a", "node-c"], {})


async def test_filter_refuses_hot_nodes(start: Start) -> None:
    """Through FailedAndUnresolvableNodes; the last nodes stay; objects in, objects out, with a warning."""
    running = await start(settings_for(filter=True))
    await fill(running)

    _, some = await post(running, "filter", a_body(NodeNames=["node-a", "node-c", "nowhere"]))
    _, last = await post(running, "filter", a_body(NodeNames=["node-c"]))
    _, objects = await post(running, "filter", a_body(NodeNames=None, Nodes=nodes("node-a", "node-c")))
    alarmed = running.health.problems
    await post(running, "filter", a_body(NodeNames=["node-c"]))

    assert some["NodeNames"] == ["node-a", "nowhere"]
    assert some["FailedAndUnresolvableNodes"] == {"node-c": "cpu load would be 95.0%, above 65%"}
    assert some["FailedNodes"] == {}
    assert last["NodeNames"] == ["node-c"]
    assert [each["metadata"]["name"] for each in objects["Nodes"]["items"]] == ["node-a"]
    assert "nodeCacheCapable" in alarmed[0]
    assert running.health.problems == []


async def test_connections_are_kept(start: Start) -> None:
    """kube-scheduler asks over one connection; it is not we who close it."""
    running = await start(settings_for())
    await fill(running)
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(3):
            async with session.post(f"{running.url}/prioritize", json=a_body()) as response:
                assert response.headers.get("Connection") != "close"


async def test_a_stopping_scorer_closes_its_port(start: Start) -> None:
    """Refused costs kube-scheduler nothing; silence would cost it nearly everything."""
    running = await start(settings_for())
    port = running.port
    await running.stop()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_address_that_is_taken_is_a_clear_fault(start: Start) -> None:
    """It names the setting."""
    running = await start(settings_for())
    second = await start(ScorerSettings(listen=f"127.0.0.1:{running.port}"))

    assert second.task is not None
    error = second.task.exception()
    assert isinstance(error, ConfigurationError)
    assert "scorer.listen" in str(error)
    second.task = asyncio.create_task(asyncio.sleep(0))


async def test_a_missing_certificate_is_a_clear_fault(start: Start) -> None:
    """It names the setting."""
    running = await start(settings_for(tls=ExtenderTls(certificate_file="/nowhere", key_file="/nowhere")))

    assert running.task is not None
    assert "scorer.extender.tls" in str(running.task.exception())
    running.task = asyncio.create_task(asyncio.sleep(0))
