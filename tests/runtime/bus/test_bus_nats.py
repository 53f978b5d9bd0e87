"""What only the real bus can show: a server that is late, stops, forbids, is full, or requires certificates."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import nats
import pytest
from builders import a_node_utilization, an_intent
from bus_worlds import PATIENCE, NatsWorld, Received, eventually, nats_world, server_process, tapping
from nats.js.api import DiscardPolicy
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import BusUnavailable, Delivery, Endpoint, NotPermitted, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import NatsConnection, connected_within
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams, stream_config
from equipoise.runtime.configuration import Nats
from equipoise.runtime.configuration.sections import Tls
from equipoise.runtime.process.clock import SystemClock

NODES = f"{subjects.PREFIX}.utilization.node.*"
TLS = Path(__file__).parents[2] / "data" / "tls"

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    async with nats_world(tmp_path) as world:
        yield world


async def publish_node(world: NatsWorld, node: str) -> None:
    await world.bus.publish(subjects.node_utilization(node), a_node_utilization(node))


async def test_messages_that_have_arrived_do_not_keep_others_waiting(world: NatsWorld) -> None:
    """While a hundred messages are handled one after the other, other tasks have their turn in between."""
    turns, seen = 0, []

    async def handle(delivery: Delivery[NodeUtilization]) -> None:
        seen.append(turns)
        end = time.perf_counter() + 0.001  # longer than a turn
        while time.perf_counter() < end:
            pass

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for number in range(100):
        await publish_node(world, f"node-{number}")
    counting = asyncio.create_task(count_turns())
    await world.bus.subscribe_latest(NODES, NodeUtilization, handle)
    counting.cancel()

    assert len(set(seen)) == len(seen) == 100


class Padding(msgspec.Struct):
    text: str = "x" * 900_000


async def say_padding(world: NatsWorld, node: str) -> None:
    await world.bus.publish(subjects.node_utilization(node), Padding())


def signal_server(world: NatsWorld, number: int) -> None:
    process = server_process(world.directory)
    os.kill(process, number)
    while number == signal.SIGSTOP and not _suspended(process):
        time.sleep(0.001)  # no event reports it


def _suspended(process: int) -> bool:
    """Whether all threads are: the signal reaches them one after the other."""
    states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{process}/task").glob("*/stat")]
    return set(states) == {"T"}


async def test_the_first_connection_waits_for_the_server(tmp_path: Path) -> None:
    """A bus that is opened before its server is there is connected once it is."""
    world = NatsWorld(tmp_path)

    async def open_and_close() -> bool:
        async with world.another("scorer") as bus:
            return bus.connected

    opening = asyncio.create_task(open_and_close())
    await asyncio.wait([opening], timeout=0.2)
    assert not opening.done()
    await world.start()
    async with asyncio.timeout(PATIENCE):
        assert await opening
    await world.stop()


async def test_waiting_for_the_server_can_be_cancelled(tmp_path: Path) -> None:
    """A service that is stopped while it waits for its bus stops at once."""
    world = NatsWorld(tmp_path)

    async def open_for_ever() -> None:
        async with open_bus(world.settings, "scorer", SystemClock(), None, reconnect_pause=1_000):
            raise AssertionError("there is no server")

    opening = asyncio.create_task(open_for_ever())
    await asyncio.wait([opening], timeout=0.1)
    opening.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([opening])
    assert opening.cancelled()


async def test_connecting_can_be_cancelled_when_the_client_ignores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nats-py does when the cancellation comes with a response of the server, before Python 3.12."""
    begun = asyncio.Event()

    async def connected_anyway(*_: object, **__: object) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    link = NatsConnection(NatsWorld(tmp_path).settings, "scorer", BusErrors(SystemClock()))
    monkeypatch.setattr(link.client, "connect", connected_anyway)
    opening = asyncio.create_task(link.open())
    await begun.wait()
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()


@pytest.mark.parametrize("with_response", [False, True])
async def test_a_publisher_can_be_cancelled_at_any_time(world: NatsWorld, with_response: bool) -> None:
    """Also in the very moment in which the server responds. The bus can still be used."""
    beat = Heartbeat(service="scorer", id="a", version="1", ready=True, at=0.0)
    publishing = asyncio.create_task(world.bus.publish(subjects.health("scorer", "a"), beat))
    responses = world.bus._link.client._pongs
    while not responses:  # noqa: ASYNC110  the client has no event for it
        await asyncio.sleep(0)
    if with_response:
        responses[-1].add_done_callback(lambda _: publishing.cancel())
    else:
        publishing.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([publishing])
        assert publishing.cancelled()
        await publish_node(world, "a")


async def test_a_password_is_read_again_at_every_connection(tmp_path: Path) -> None:
    """A wrong password keeps the bus waiting; once the file holds the right one it is let in."""
    configuration = permission_file(dict.fromkeys(USERS, "right"))
    world = NatsWorld(tmp_path / "nats", configuration)
    await world.start()
    password = tmp_path / "password"
    password.write_text("wrong\n")
    settings = Nats(url=world.settings.url, user="scorer", password_file=str(password))

    async def open_and_close() -> bool:
        async with open_bus(settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
            return bus.connected

    opening = asyncio.create_task(open_and_close())
    await asyncio.wait([opening], timeout=0.2)
    assert not opening.done()
    password.write_text("right\n")
    async with asyncio.timeout(PATIENCE):
        assert await opening
    await world.stop()


async def test_the_connection_is_encrypted_and_both_sides_are_known(tmp_path: Path) -> None:
    """With TLS the server is verified against our authority, and the server verifies us."""
    world = NatsWorld(
        tmp_path,
        f'tls {{ cert_file: "{TLS}/server.pem", key_file: "{TLS}/server-key.pem", '
        f'ca_file: "{TLS}/ca.pem", verify: true }}',
    )
    await world.start()
    tls = Tls(ca_file=f"{TLS}/ca.pem", cert_file=f"{TLS}/client.pem", key_file=f"{TLS}/client-key.pem")
    settings = Nats(url=f"tls://127.0.0.1:{world.port}", tls=tls)
    await setup_streams(settings, intent_max_age=60)
    async with connect(settings, "scorer") as bus:
        receipt = await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
    assert receipt.sequence == 1
    await world.stop()


async def test_a_deleted_consumer_is_created_again(world: NatsWorld) -> None:
    """When someone deletes a follower's consumer, the last values come again and then what is new."""
    received: Received[NodeUtilization] = Received()
    await publish_node(world, "a")
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    async with await nats.connect(world.settings.url) as client:
        stream = client.jetstream()
        [consumer] = await stream.consumers_info("EQUIPOISE_UTILIZATION")
        assert consumer.name.startswith("scorer-")
        await stream.delete_consumer("EQUIPOISE_UTILIZATION", consumer.name)
    await received.until(2)
    await publish_node(world, "b")
    await received.until(3)
    assert [(d.message.node, d.replayed) for d in received.deliveries] == [("a", True), ("a", True), ("b", False)]
    assert world.bus.errors.total("follow") == 1


async def test_a_server_that_stops_is_detected_by_missing_heartbeats(world: NatsWorld) -> None:
    """Without heartbeats the subscriber creates a new consumer, and gets the messages of the meantime."""
    received: Received[NodeUtilization] = Received()
    async with world.another("descheduler", heartbeat=0.1) as bus:
        await bus.subscribe_latest(NODES, NodeUtilization, received)
        before = bus.errors.total("stalled")
        signal_server(world, signal.SIGSTOP)
        await eventually(lambda: bus.errors.total("stalled") > before)
        signal_server(world, signal.SIGCONT)
        await publish_node(world, "a")
        await received.until(1)
        await eventually(lambda: list(bus.problems) == [])


async def test_a_stream_without_messages_still_has_heartbeats(world: NatsWorld) -> None:
    """Heartbeats keep a follower of a quiet stream content.

    A machine that stops for a quarter of a second is like a server that does: so it may take several looks.
    """
    async with world.another("descheduler", heartbeat=0.1) as bus:
        await bus.subscribe_latest(NODES, NodeUtilization, Received())
        async with asyncio.timeout(PATIENCE):
            stalled = None
            while stalled != (stalled := bus.errors.total("stalled")):  # noqa: ASYNC110  there is no event
                await asyncio.sleep(0.6)


async def test_following_waits_for_a_stream_that_is_not_there_yet(tmp_path: Path) -> None:
    """Before the streams exist, subscribe_latest waits and reports why; then it returns."""
    world = NatsWorld(tmp_path)
    await world.start()
    async with world.another("scorer") as bus:
        following = asyncio.create_task(bus.subscribe_latest(NODES, NodeUtilization, Received()))
        await eventually(lambda: any("cannot follow" in problem for problem in bus.problems))
        with pytest.raises(BusUnavailable, match="equipoise setup"):
            await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
        await setup_streams(world.settings, intent_max_age=60)
        async with asyncio.timeout(PATIENCE):
            await following
        await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
        assert list(bus.problems) == []
    await world.stop()


async def test_work_waits_for_a_queue_that_is_not_there_yet(tmp_path: Path) -> None:
    """Before the streams exist, work waits and reports why; then it gets messages."""
    world = NatsWorld(tmp_path)
    await world.start()
    worked: Received[EvictionIntent] = Received()
    async with world.another("binder") as bus:
        working = asyncio.create_task(bus.work(EvictionIntent, worked))
        await eventually(lambda: any("equipoise setup" in problem for problem in bus.problems))
        await setup_streams(world.settings, intent_max_age=60)
        await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
        await worked.until(1)
        assert list(bus.problems) == []
        working.cancel()
    await world.stop()


async def test_every_message_has_an_id(world: NatsWorld) -> None:
    """Messages carry Nats-Msg-Id, those that no stream keeps as well."""
    async with await nats.connect(world.settings.url) as client:
        tap = await tapping(client)
        await world.bus.publish(
            subjects.health("scorer", "one"), Heartbeat(service="s", id="1", version="1", ready=True, at=0)
        )
        await world.bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent(), message_id="intent-1")
        await world.bus.publish_many([(subjects.node_utilization("a"), a_node_utilization("a"))])
        ids = [(await tap.next_msg(PATIENCE)).headers["Nats-Msg-Id"] for _ in range(3)]
    assert ids[1] == "intent-1"
    assert all(ids)
    assert len(set(ids)) == 3


async def test_a_micro_service_describes_itself(world: NatsWorld) -> None:
    """$SRV.INFO and $SRV.STATS contain the service's name, version, endpoints and numbers of requests."""

    async def rank(query: ExplainRequest) -> Explanation:
        return Explanation()

    await world.bus.serve(
        "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=rank)]
    )
    async with await nats.connect(world.settings.url) as client:
        await client.request(subjects.SCORE_EXPLAIN, b"no query", timeout=PATIENCE)
        info = msgspec.json.decode((await client.request("$SRV.INFO.equipoise-scorer", timeout=PATIENCE)).data)
        stats = msgspec.json.decode((await client.request("$SRV.STATS", timeout=PATIENCE)).data)
    assert info["name"] == "equipoise-scorer"
    assert [endpoint["subject"] for endpoint in info["endpoints"]] == [subjects.SCORE_EXPLAIN]
    assert stats["endpoints"][0]["num_requests"] == 1


async def test_a_full_stream_is_a_problem_until_it_is_not(world: NatsWorld) -> None:
    """A stream without room raises BusUnavailable and is shown; the next message that is kept clears it."""
    stream = next(stream for stream in STREAMS if stream.name == "EQUIPOISE_OUTCOME")
    subject = subjects.eviction_outcome("shop", "web-1")
    async with await nats.connect(world.settings.url) as client:
        full = stream_config(stream).evolve(max_bytes=100, discard=DiscardPolicy.NEW)
        await client.jetstream().update_stream(full)
        with pytest.raises(BusUnavailable, match="maximum bytes"):
            await world.bus.publish(subject, an_intent())
        assert any("EQUIPOISE_OUTCOME" in problem for problem in world.bus.problems)
        await client.jetstream().update_stream(full.evolve(max_bytes=10_000))
        await world.bus.publish(subject, an_intent())
    assert list(world.bus.problems) == []


async def test_a_message_too_large_among_many_is_counted_and_shown(world: NatsWorld) -> None:
    """The others are stored; the missing one must not go unnoticed."""
    too_large = (subjects.node_utilization("b"), Padding("x" * 2**20))
    assert await world.bus.publish_many([(subjects.node_utilization("a"), a_node_utilization("a")), too_large]) == 1
    assert world.bus.errors.total("too_large") == 1
    [problem] = world.bus.problems
    assert "utilization.node.b" in problem
    assert "max_payload" in problem


async def test_a_connection_that_the_server_closes_because_of_a_message_is_opened_again(world: NatsWorld) -> None:
    """Only rejected credentials end the process."""
    async with connected_within(PATIENCE, world.settings, "tap", SystemClock()) as link:
        lost = asyncio.Event()
        link.when_lost(lost.set)
        await link.client.publish("x" * 5_000, b"")  # nats-server: maximum control line exceeded
        async with asyncio.timeout(PATIENCE):
            await lost.wait()
            await link.wait_connected()
        await link.client.flush()
        assert link.errors.total("connection") >= 1


async def test_what_waits_for_its_acknowledgement_fails_when_the_connection_is_lost(world: NatsWorld) -> None:
    """A message under way when the server dies raises BusUnavailable, and is not sent again by itself."""
    signal_server(world, signal.SIGSTOP)
    publishing = asyncio.create_task(publish_node(world, "a"))
    await asyncio.wait([publishing], timeout=0.1)
    signal_server(world, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusUnavailable, match="lost"):
            await publishing
    await world.disconnect()
    await world.reconnect()
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    await publish_node(world, "b")
    await received.until(1)
    assert [m.node for m in received.messages] == ["b"]


async def test_bytes_that_were_not_written_are_not_written_later(world: NatsWorld) -> None:
    """What a stuck connection could not write is dropped with it: it would arrive long after its time."""
    signal_server(world, signal.SIGSTOP)
    # The first ones fill the socket and block the writing, so that the others wait in the client.
    publishing = [asyncio.create_task(say_padding(world, f"n{n}")) for n in range(15)]
    await asyncio.wait(publishing, timeout=0.2)
    publishing += [asyncio.create_task(say_padding(world, f"m{n}")) for n in range(5)]
    await asyncio.wait(publishing, timeout=0.2)
    assert world.bus._link.client.pending_data_size > 0
    signal_server(world, signal.SIGKILL)
    await asyncio.wait(publishing, timeout=PATIENCE)
    assert {type(task.exception()) for task in publishing} == {BusUnavailable}
    await world.disconnect()
    await world.reconnect()
    await publish_node(world, "b")
    async with await nats.connect(world.settings.url) as client:
        state = (await client.jetstream().stream_info("EQUIPOISE_UTILIZATION")).state
    assert state.messages == 1


async def test_a_permission_error_is_raised_at_once_and_counted(tmp_path: Path) -> None:
    """Publishing and both subscriptions raise NotPermitted soon, and are counted."""
    world = NatsWorld(tmp_path / "nats", permission_file(dict.fromkeys(USERS, "secret")))
    await world.start()
    password = tmp_path / "password"
    password.write_text("secret")
    url, metrics = world.settings.url, CollectorRegistry()
    await setup_streams(Nats(url=url, user="setup", password_file=str(password)), intent_max_age=60)
    settings = Nats(url=url, user="annotator", password_file=str(password))
    async with connect(settings, "annotator", clock=SystemClock(), metrics=metrics) as bus:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(NotPermitted):
                await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
            with pytest.raises(NotPermitted):
                await bus.publish_many([(subjects.node_utilization("a"), a_node_utilization("a"))])
            with pytest.raises(NotPermitted):
                await bus.publish(
                    subjects.health("scorer", "one"), Heartbeat(service="s", id="1", version="1", ready=True, at=0)
                )
            with pytest.raises(NotPermitted):
                await bus.subscribe(f"{subjects.PREFIX}.decision.>", NodeUtilization, Received())
            with pytest.raises(NotPermitted):
                await bus.subscribe_latest(f"{subjects.PREFIX}.decision.>", NodeUtilization, Received())
            with pytest.raises(NotPermitted):
                await bus.request(subjects.SCORE_EXPLAIN, an_intent(), Explanation, timeout=1_000)
        assert metrics.get_sample_value("equipoise_bus_errors_total", {"kind": "permission"}) == 6
        assert len([problem for problem in bus.problems if "not permitted" in problem]) >= 5
        await bus.subscribe_latest(NODES, NodeUtilization, Received())
    await world.stop()


async def test_a_password_may_change_while_connected(tmp_path: Path) -> None:
    """When the server turns a user out because its password changed, the bus comes back with the new one."""
    world = NatsWorld(tmp_path, 'authorization { user: scorer, password: "one" }')
    await world.start()
    password = tmp_path / "password"
    password.write_text("one")
    settings = Nats(url=world.settings.url, user="scorer", password_file=str(password))
    async with open_bus(settings, "scorer", SystemClock(), None, reconnect_pause=0.1) as bus:
        (tmp_path / "nats-server.conf").write_text('authorization { user: scorer, password: "two" }')
        signal_server(world, signal.SIGHUP)
        await eventually(lambda: not bus.connected)
        password.write_text("two")
        await eventually(lambda: bus.connected)
    await world.stop()


async def test_closing_can_be_cancelled(tmp_path: Path) -> None:
    """The connection is closed all the same."""
    async with nats_world(tmp_path) as world:
        link = NatsConnection(world.settings, "scorer", BusErrors(SystemClock()))
        await link.open()
        await link.client.subscribe(link.client.new_inbox())
        closing = asyncio.create_task(link.close())
        while not link.client.is_draining:  # noqa: ASYNC110  the client has no event for it
            await asyncio.sleep(0)
        closing.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([closing])

        assert closing.cancelled()
        assert link.client.is_closed
