"""The reply subject of a request is free: what a user can do with one that is a subject of the services."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from builders import an_intent
from bus_worlds import PATIENCE, NatsWorld, Received, eventually, flushed
from nats.aio.client import Client
from nats.aio.msg import Msg

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import STREAMS, stream_of
from equipoise.contracts.bus.subjects import ALL_SERVICES, SCORE_EXPLAIN, ServiceName, matches
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import Bus, BusUnavailable, Endpoint, NoResponders
from equipoise.runtime.bus.nats.nats_bus import NatsBus, open_bus
from equipoise.runtime.bus.permissions import USERS, User, permission_file, permissions_of
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

REDIRECTED = 0.5
"""Seconds in which a redirected message would arrive."""


class Anything(msgspec.Struct):
    """Any JSON object can be decoded as one."""


class Server:
    """A nats-server with our permission file."""

    def __init__(self, directory: Path, world: NatsWorld) -> None:
        self._directory = directory
        self._world = world

    def settings(self, user: User) -> Nats:
        file = self._directory / user
        file.write_text("secret")
        return Nats(url=self._world.settings.url, user=user, password_file=str(file))

    def bus(self, user: User) -> AbstractAsyncContextManager[NatsBus]:
        return open_bus(self.settings(user), user, SystemClock(), None)

    async def client(self, user: User) -> Client:
        """A client that is not ours."""

        async def ignore(error: Exception) -> None:
            """A subscription that is not permitted."""

        return await nats.connect(
            self._world.settings.url, user=user, password="secret", inbox_prefix=f"_INBOX.{user}", error_cb=ignore
        )

    async def states(self) -> dict[str, tuple[int, int]]:
        """By stream, how many messages it has and the sequence of the last one."""
        found = {}
        async with await self.client("setup") as client:
            for stream in STREAMS:
                info = await client.request(f"$JS.API.STREAM.INFO.{stream.name}", timeout=PATIENCE)
                state = msgspec.json.decode(info.data)["state"]
                found[stream.name] = (state["messages"], state["last_seq"])
        return found

    async def publish_everywhere(self, name: str) -> None:
        """One message on every channel, by the service that may publish it."""
        for service in ALL_SERVICES:
            async with self.bus(service) as bus:
                for channel in CHANNELS:
                    if service in channel.publishers:
                        await bus.publish(literal(channel.pattern, name, service), channel.example[1])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    world = NatsWorld(tmp_path / "nats", permission_file(dict.fromkeys(USERS, "secret")))
    await world.start()
    server = Server(tmp_path, world)
    await setup_streams(server.settings("setup"), intent_max_age=60)
    yield server
    await world.stop()


def literal(pattern: str, name: str, service: str = "") -> str:
    """A subject that the pattern matches; health and configuration are those of the service."""
    for own in ("health", "configuration"):
        pattern = pattern.replace(f".{own}.*", f".{own}.{service or name}")
    return pattern.replace("*", name).replace(">", name)


async def redirect(client: Client, user: User, reply: str) -> None:
    """Everything that this user may publish, with this reply subject. A consumer delivers to it, too."""
    await client.subscribe(reply)  # a consumer delivers only where somebody listens
    for number, pattern in enumerate(permissions_of(user).publish):
        if ".CONSUMER.CREATE." in pattern:
            stream, _, filtered = pattern.split(".CONSUMER.CREATE.")[1].split(".", 2)
            name = f"{user}-{reply.replace('.', '-')}-{number}"
            for kind, how in (
                ("pull", {}),
                ("push", {"deliver_subject": reply, "idle_heartbeat": 100_000_000, "flow_control": True}),
            ):
                config = {"name": f"{name}-{kind}", "filter_subject": filtered, "ack_policy": "none"}
                config |= {"deliver_policy": "all", "mem_storage": True, "inactive_threshold": 5_000_000_000, **how}
                request = msgspec.json.encode({"stream_name": stream, "config": config})
                subject = f"$JS.API.CONSUMER.CREATE.{stream}.{name}-{kind}.{filtered}"
                await client.publish(subject, request, reply=reply)
            await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}-pull", b"1", reply=reply)
        else:
            request = b'{"batch":9,"seq":1}' if "DIRECT.GET" in pattern else b"{}"
            for subject in {literal(pattern, "own"), literal(pattern, "own").removeprefix("TAP.")}:
                await client.publish(subject, request, reply=reply)
    await flushed(client)


async def explain(request: ExplainRequest) -> Explanation:
    return Explanation()


async def test_no_request_of_the_tap_changes_a_stream(server: Server) -> None:
    """Whatever the reply subject is: responses of JetStream, of services, and what a consumer delivers."""
    await server.publish_everywhere("honest")
    before = await server.states()
    responses: list[str] = []

    async def on_response(message: Msg) -> None:
        responses.append(message.subject)

    async with server.bus("scorer") as scorer, await server.client("tap") as tap:
        await scorer.serve("scorer", [Endpoint(subject=SCORE_EXPLAIN, request_type=ExplainRequest, handler=explain)])
        await tap.subscribe("equipoise.>", cb=on_response)
        for channel in CHANNELS:
            await redirect(tap, "tap", literal(channel.pattern, "honest"))
        stored = [literal(c.pattern, "honest") for c in CHANNELS if stream_of(c.pattern) is not None]
        await eventually(lambda: all(responses.count(subject) > len(STREAMS) for subject in stored))
        await asyncio.sleep(REDIRECTED)
        assert await server.states() == before


@pytest.mark.parametrize("user", ALL_SERVICES)
async def test_what_a_service_redirects_is_skipped_by_all_subscribers(server: Server, user: ServiceName) -> None:
    """Subscribers of last values, of new messages and of the work queue receive only what was published to them."""
    received: list[tuple[Channel, Received[Anything]]] = []
    await server.publish_everywhere("honest")
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        working = []
        for service in ALL_SERVICES:
            bus = await stack.enter_async_context(server.bus(service))
            for channel in CHANNELS:
                for subscribe in subscriptions(bus, channel, service):
                    received.append((channel, Received()))
                    await subscribe(channel.pattern, Anything, received[-1][1])
                # A binder may take all work, so that there is none for another one.
                if "binder" == service != user and service in channel.subscribers and is_work(channel):
                    received.append((channel, Received()))
                    working.append(tasks.create_task(bus.work(Anything, received[-1][1])))
        async with await server.client(user) as client:
            for channel in CHANNELS:
                await redirect(client, user, literal(channel.pattern, "forged"))
            await asyncio.sleep(REDIRECTED)
        await server.publish_everywhere("end")
        for channel, those in received:
            end = ".end" if literal(channel.pattern, "end") != channel.pattern else channel.pattern
            await those.until(lambda deliveries, end=end: any(end in each.subject for each in deliveries))
        for task in working:
            task.cancel()
    for channel, those in received:
        expected = {
            literal(channel.pattern, name, service) for name in ("honest", "end") for service in ("", *ALL_SERVICES)
        }
        assert {delivery.subject for delivery in those.deliveries} <= expected, channel.pattern
        if literal(channel.pattern, "") == channel.pattern:  # all subjects are equal, so the number shows it
            assert len(those.deliveries) <= 2, channel.pattern


def is_work(channel: Channel) -> bool:
    stream = stream_of(channel.pattern)
    return stream is not None and stream.work_queue


def subscriptions(bus: Bus, channel: Channel, service: ServiceName) -> list[Any]:
    """How this service may subscribe to the channel."""
    if service in channel.observers:
        return [bus.subscribe]
    if service not in channel.subscribers or is_work(channel):
        return []
    return [bus.subscribe] if stream_of(channel.pattern) is None else [bus.subscribe, bus.subscribe_latest]


async def test_only_the_descheduler_can_bring_a_valid_intent_to_the_binder(server: Server) -> None:
    """A collector can store the text of an intent in its own stream, and have JetStream deliver it as an intent."""
    worked: Received[EvictionIntent] = Received()
    observed: Received[EvictionIntent] = Received()
    forged = subjects.eviction_intent("shop", "forged")
    async with (
        server.bus("binder") as binder,
        server.bus("scorer") as scorer,
        server.bus("descheduler") as descheduler,
        await server.client("collector") as collector,
    ):
        working = asyncio.create_task(binder.work(EvictionIntent, worked))
        await scorer.subscribe("equipoise.eviction.intent.*.*", EvictionIntent, observed)
        own = subjects.utilization_cycle("forged")
        for named in (own, forged):
            await collector.request(
                own, msgspec.json.encode(an_intent("forged")), headers={"ce-subject": named}, timeout=PATIENCE
            )
            await redirect(collector, "collector", forged)
        await asyncio.sleep(REDIRECTED)
        await descheduler.publish(subjects.eviction_intent("shop", "honest"), an_intent("honest"))
        for received in (worked, observed):
            await received.until(lambda deliveries: any(each.message.pod == "honest" for each in deliveries))
            assert [message.pod for message in received.messages] == ["honest"]
        working.cancel()


async def messages_of_intents(server: Server) -> tuple[int, int]:
    """Number and bytes of the messages in the work queue."""
    async with await server.client("setup") as client:
        info = await client.request("$JS.API.STREAM.INFO.EQUIPOISE_INTENT", timeout=PATIENCE)
        state = msgspec.json.decode(info.data)["state"]
        return state["messages"], state["bytes"]


async def until_full(server: Server) -> None:
    """Waits until no further message fits into the work queue."""
    async with asyncio.timeout(PATIENCE):
        while (await messages_of_intents(server))[1] < 31 * 2**20:
            pass


async def fill_with_redirected(client: Client, size: int, count: int, name: str) -> None:
    """Store messages of this size as a collector may, and have JetStream deliver them all as intents by one pull."""
    for number in range(count):
        subject = subjects.utilization_cycle(f"{name}-{number}")
        await client.request(subject, b"0" * size, timeout=PATIENCE)
    await pull_as_intents(client, name)


async def pull_as_intents(client: Client, name: str) -> None:
    """One pull of everything that a collector may read, with an intent as the reply subject."""
    stream, filtered = "EQUIPOISE_UTILIZATION", "equipoise.utilization.cycle.*"
    config = {"name": name, "filter_subject": filtered, "ack_policy": "none", "deliver_policy": "all"}
    request = msgspec.json.encode({"stream_name": stream, "config": config | {"mem_storage": True}})
    await client.request(f"$JS.API.CONSUMER.CREATE.{stream}.{name}.{filtered}", request, timeout=PATIENCE)
    reply = subjects.eviction_intent("shop", "forged")
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", b"100000", reply=reply)
    await flushed(client)


async def test_redirected_messages_leave_room_for_intents(server: Server) -> None:
    """A pull of another service fills the work queue with messages that no binder takes: they are removed."""
    worked: Received[EvictionIntent] = Received()
    async with (
        server.bus("binder") as binder,
        server.bus("descheduler") as descheduler,
        await server.client("collector") as collector,
    ):
        await fill_with_redirected(collector, 8_000, 4_500, "fill")

        await until_full(server)
        working = asyncio.create_task(binder.work(EvictionIntent, worked))
        for pod in (pods := [f"web-{number}" for number in range(20)]):
            await descheduler.publish(subjects.eviction_intent("shop", pod), an_intent(pod))
        await worked.until(lambda deliveries: {each.message.pod for each in deliveries} == set(pods))
        working.cancel()
    assert descheduler.errors.total("foreign_messages") == 1


async def test_intents_are_taken_while_somebody_fills_the_work_queue(server: Server) -> None:
    """A publication that fails is repeated by the next evaluation.

    Takes seconds: the work queue is filled with 32 MiB, and filled again while intents are published.
    """
    async with server.bus("descheduler") as descheduler, await server.client("collector") as collector:
        await fill_with_redirected(collector, 8_000, 4_500, "fill")
        await until_full(server)
        ended = False

        async def attack() -> None:
            number = 0
            while not ended:
                number += 1
                await pull_as_intents(collector, f"again-{number}")

        attacking = asyncio.create_task(attack())
        published = 0
        for number in range(8):
            with suppress(BusUnavailable):
                await descheduler.publish(subjects.eviction_intent("shop", f"web-{number}"), an_intent(f"web-{number}"))
                published += 1
        ended = True
        await attacking
    assert published >= 4


async def test_responses_that_fill_the_work_queue_on_its_own_subjects_are_removed_too(server: Server) -> None:
    """The acknowledgement of every publication can be delivered to the subject of an intent."""
    async with server.bus("descheduler") as descheduler, await server.client("collector") as collector:
        own, number = subjects.utilization_cycle("own"), 0
        async with asyncio.timeout(PATIENCE):
            while (await messages_of_intents(server))[1] < 32 * 2**20 - 2_000:
                for _ in range(5_000):
                    number += 1
                    reply = subjects.eviction_intent("shop", f"forged-{number}-{500 * 'x'}")
                    await collector.publish(own, b"{}", reply=reply)
                await flushed(collector)
        await descheduler.publish(subjects.eviction_intent("shop", "honest"), an_intent("honest"))

    assert descheduler.errors.total("foreign_messages") == 1


async def test_no_message_larger_than_an_intent_is_taken_as_one(server: Server) -> None:
    async with await server.client("collector") as collector:
        await fill_with_redirected(collector, 500_000, 10, "large")
        await asyncio.sleep(REDIRECTED)

    assert await messages_of_intents(server) == (0, 0)


async def test_a_request_of_the_tap_to_a_service_that_is_away_fails_at_once(server: Server) -> None:
    """Also from another account, nats-server responds that nothing responds."""
    async with server.bus("tap") as tap:
        with pytest.raises(NoResponders):
            await tap.request(SCORE_EXPLAIN, ExplainRequest(), Explanation, timeout=PATIENCE)


async def test_a_connection_without_a_user_is_refused(server: Server) -> None:
    """The accounts leave no other way in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.settings("tap").url.rpartition(":")[2]))
    await reader.readline()
    writer.write(b"CONNECT {}\r\nPING\r\n")
    assert b"Authorization Violation" in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_consumer_that_a_service_creates_does_not_outlast_it(server: Server) -> None:
    """A stream has at most 1,000: durable ones of a stolen password would keep all services from reading it."""
    readable = [(c.pattern, stream) for c in CHANNELS if (stream := stream_of(c.pattern)) and not stream.work_queue]
    for user in ALL_SERVICES:
        async with await server.client(user) as client:
            for pattern, stream in readable:
                subject = f"$JS.API.CONSUMER.CREATE.{stream.name}.squatter.{pattern}"
                if not any(matches(allowed, subject) for allowed in permissions_of(user).publish):
                    continue
                config = {"name": "squatter", "durable_name": "squatter", "filter_subject": pattern}
                for lifetime in ({}, {"inactive_threshold": 86_400 * 10**9}):
                    request = msgspec.json.encode({"stream_name": stream.name, "config": config | lifetime})
                    response = msgspec.json.decode((await client.request(subject, request, timeout=PATIENCE)).data)
                    created = response.get("config", {"inactive_threshold": None})
                    assert created["inactive_threshold"] in (None, 60 * 10**9), response


async def test_the_tap_has_few_connections(server: Server) -> None:
    """For each NATS holds up to 64 MiB that the client does not read."""
    async with AsyncExitStack() as stack:
        for _ in range(16):
            await stack.enter_async_context(await server.client("tap"))
        one_more = Client()
        with pytest.raises(nats.errors.Error, match="maximum account active connections exceeded"):
            await one_more.connect(server.settings("tap").url, user="tap", password="secret", allow_reconnect=False)
        await one_more.close()
        if one_more._transport is not None:  # a client that was refused leaves it open
            one_more._transport.close()
        async with server.bus("scorer"):
            pass
