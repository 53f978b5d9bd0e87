"""What services may expect of any bus: the same tests over memory and a real nats-server."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, an_intent
from bus_worlds import PATIENCE, MemoryWorld, Received, World, eventually, memory_world, nats_world
from prometheus_client import CollectorRegistry

from equipoise.contracts.bounds import EPOCH_AHEAD
from equipoise.contracts.bus import channels, subjects
from equipoise.contracts.bus.channels import Channel
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import GonePod, NodePlacement
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import (
    AlreadyQueued,
    BusError,
    BusUnavailable,
    Delivery,
    Endpoint,
    InvalidSubject,
    NoResponders,
    Redeliver,
    TooLarge,
)
from equipoise.runtime.bus.codec import MAX_DELIVERIES
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.bus import MemoryBus

NODES = f"{subjects.PREFIX}.utilization.node.*"
S = TypeVar("S", bound=msgspec.Struct)
REQUEST = ExplainRequest(namespace="shop", name="web-1", nodes=["a", "b"])


@pytest.fixture(params=[memory_world, nats_world], ids=["memory", "nats"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with request.param(tmp_path) as world:
        yield world


async def publish_node(world: World, node: str, cpu: float = 1.0) -> None:
    await world.bus.publish(subjects.node_utilization(node), a_node_utilization(node, cpu=cpu))


async def intend(world: World, pod: str = "web-1", message_id: str | None = None) -> None:
    await world.bus.publish(subjects.eviction_intent("shop", pod), an_intent(pod), message_id=message_id)


def a_heartbeat(service: str = "scorer") -> Heartbeat:
    return Heartbeat(service=service, id="one", version="1", ready=True, at=1.0)


class Workers:
    """A worker that records its attempts and returns what the test sets."""

    def __init__(self, *responses: Redeliver | Exception | None) -> None:
        self.responses = list(responses)
        self.tried: Received[EvictionIntent] = Received()

    async def __call__(self, delivery: Delivery[EvictionIntent]) -> Redeliver | None:
        await self.tried(delivery)
        reply = self.responses.pop(0) if self.responses else None
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def pods(self) -> list[str]:
        return [intent.pod for intent in self.tried.messages]


async def test_subscribe_latest_delivers_last_values_and_then_new_messages(world: World) -> None:
    """When subscribe_latest returns, the last value of every subject was handled; then new messages follow."""
    await publish_node(world, "a", cpu=1)
    await publish_node(world, "a", cpu=2)
    await publish_node(world, "b", cpu=3)
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    assert [(m.node, m.windows["5m"].mean.cpu) for m in received.messages] == [("a", 2), ("b", 3)]
    assert all(delivery.replayed for delivery in received.deliveries)
    await publish_node(world, "a", cpu=4)
    await received.until(3)
    assert received.messages[2].windows["5m"].mean.cpu == 4
    assert not received.deliveries[2].replayed


class Followed(Generic[S]):
    """Records the messages of a channel that are used."""

    def __init__(self, result: object = None) -> None:
        self.messages: list[S] = []
        self._result = result

    def __call__(self, message: S, now: float) -> object:
        assert abs(SystemClock().now() - now) < PATIENCE
        self.messages.append(message)
        return self._result


def measured(message: S, at: float, **fields: Any) -> S:
    """The same measurement at another time, without what has a time of its own."""
    times = {"queried_at": at, "evaluated_at": at, "sampled_at": at, "windows": {}, "pressure": None, "resources": {}}
    known = {name: value for name, value in times.items() if name in message.__struct_fields__}
    return msgspec.structs.replace(message, **known, **fields)


async def measure(world: World, sequence: int = 1) -> None:
    message = measured(a_node_utilization("a"), SystemClock().now(), sequence=sequence)
    await world.bus.publish(subjects.node_utilization("a"), message)


async def test_follow_delivers_last_values_and_then_new_messages(world: World) -> None:
    """Those of before may be handled in another way."""
    await measure(world, sequence=1)
    await measure(world, sequence=2)
    replayed, new = Followed[NodeUtilization](), Followed[NodeUtilization]()
    await world.bus.follow(channels.NODE_UTILIZATIONS, new, on_replayed=replayed)
    assert [message.sequence for message in replayed.messages] == [2]
    await measure(world, sequence=3)
    await eventually(lambda: len(new.messages) == 1)
    assert new.messages[0].sequence == 3
    assert len(replayed.messages) == 1


MEASUREMENTS = (
    channels.NODE_UTILIZATIONS,
    channels.WORKLOAD_UTILIZATIONS,
    channels.UTILIZATION_CYCLES,
    channels.RECLAIMED_NODES,
)


@pytest.mark.parametrize("channel", MEASUREMENTS, ids=lambda channel: channel.pattern)
async def test_measurements_of_the_far_future_are_dropped_and_counted(world: World, channel: Channel[Any]) -> None:
    """They would be the latest of their subject until then. Who publishes them needs the epochs of all."""
    subject, example = channel.example
    now = SystemClock().now()
    late = measured(example, now + 600.0)
    await world.bus.publish(subject, late)
    used, kept = Followed[Any](), Followed[Any]()
    await world.bus.follow(channel, used)
    assert world.bus.errors.total("outdated") == 1
    await world.bus.follow(channel, kept, keep_future=True)
    assert (used.messages, kept.messages) == ([], [late])
    assert world.bus.errors.total("outdated") == 1
    assert not list(world.bus.unreadable)
    await world.bus.publish(subject, measured(example, now))
    await eventually(lambda: len(used.messages) == 1)


async def test_outdated_messages_are_counted_by_their_type_whatever_part_is_read() -> None:
    """Services read different parts of the same messages."""

    class Part(msgspec.Struct, frozen=True, kw_only=True):
        node: str

    metrics = CollectorRegistry()
    bus = MemoryBus(SystemClock())
    bus.errors = BusErrors(SystemClock(), metrics)
    await bus.publish(*channels.NODE_PLACEMENTS.example)
    await bus.follow(channels.NODE_PLACEMENTS.reading(Part), Followed[Part](result=False))
    name = "equipoise_bus_outdated_messages_total"
    assert metrics.get_sample_value(name, {"kind": "NodePlacement"}) == 1


async def test_messages_that_a_follower_calls_outdated_are_counted(world: World) -> None:
    """A result of None is none."""
    await measure(world)
    await world.bus.follow(channels.NODE_UTILIZATIONS, Followed[NodeUtilization]())
    assert world.bus.errors.total("outdated") == 0
    await world.bus.follow(channels.NODE_UTILIZATIONS, Followed[NodeUtilization](result=False))
    assert world.bus.errors.total("outdated") == 1


class FollowedTogether:
    """Records the calls of a follower of many messages, by the nodes of the messages. A message of `bad` fails."""

    def __init__(self, bad: str = "", outdated: str = "") -> None:
        self.calls: list[list[str]] = []
        self.bad = bad
        self._outdated = outdated

    def __call__(self, messages: Sequence[NodeUtilization], now: float) -> list[bool]:
        assert abs(SystemClock().now() - now) < PATIENCE
        nodes = [message.node for message in messages]
        if self.bad in nodes:
            raise RuntimeError("cannot be handled")
        self.calls.append(nodes)
        return [node != self._outdated for node in nodes]

    @property
    def nodes(self) -> list[str]:
        return [node for call in self.calls for node in call]


async def measure_nodes(world: World, names: Sequence[str], *, ahead: float = 0.0) -> None:
    now = SystemClock().now()
    for name in names:
        message = measured(a_node_utilization(name), now + ahead)
        await world.bus.publish(subjects.node_utilization(name), message)


async def test_messages_that_arrived_are_followed_together(world: World) -> None:
    """When `follow_many` returns, the last values are handled, in fewer calls than messages; then come new ones."""
    names = [f"node-{number:02}" for number in range(40)]
    await measure_nodes(world, names)
    followed = FollowedTogether()
    await world.bus.follow_many(channels.NODE_UTILIZATIONS, followed)
    assert followed.nodes == names
    assert len(followed.calls) < len(names)
    await measure_nodes(world, ["new"])
    await eventually(lambda: followed.nodes == [*names, "new"])


async def test_one_of_many_messages_that_cannot_be_handled_does_not_lose_the_others(world: World) -> None:
    """It is listed with its node, until a later message of the node is handled."""
    await measure_nodes(world, ["a", "b", "c"])
    followed = FollowedTogether(bad="b")
    await world.bus.follow_many(channels.NODE_UTILIZATIONS, followed)
    assert followed.nodes == ["a", "c"]
    assert [name for _, name, _ in world.bus.unreadable] == [subjects.node_utilization("b")]
    followed.bad = ""
    await measure_nodes(world, ["b"])
    await eventually(lambda: not list(world.bus.unreadable))


async def test_each_outdated_one_of_many_messages_is_counted(world: World) -> None:
    """By its follower, or because it is measured in the far future: that one is not delivered."""
    await measure_nodes(world, ["a", "b"])
    await measure_nodes(world, ["late"], ahead=600.0)
    followed = FollowedTogether(outdated="b")
    await world.bus.follow_many(channels.NODE_UTILIZATIONS, followed)
    assert followed.nodes == ["a", "b"]
    assert world.bus.errors.total("outdated") == 2


async def test_follow_may_be_limited_to_some_subjects(world: World) -> None:
    """And need no stream: then only new messages are received."""
    followed = Followed[Heartbeat]()
    await world.bus.publish(subjects.health("scorer", "one"), a_heartbeat())
    await world.bus.follow(channels.HEARTBEATS.of("scorer"), followed)
    await world.bus.publish(subjects.health("binder", "one"), a_heartbeat("binder"))
    await world.bus.publish(subjects.health("scorer", "one"), a_heartbeat())
    await eventually(lambda: len(followed.messages) == 1)
    assert followed.messages == [a_heartbeat()]


async def test_follow_observes_intents_without_working_on_them(world: World) -> None:
    """The messages of a work queue have no last values."""
    await intend(world, "web-1")
    followed, workers = Followed[EvictionIntent](), Workers()
    await world.bus.follow(channels.EVICTION_INTENTS, followed)
    await intend(world, "web-2")
    await eventually(lambda: len(followed.messages) == 1)
    assert followed.messages[0].pod == "web-2"
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await workers.tried.until(2)
    working.cancel()


async def test_a_part_of_the_messages_may_be_followed(world: World) -> None:
    """Only these fields are decoded."""

    class NodeName(msgspec.Struct, frozen=True):
        node: str

    await world.bus.publish(subjects.node_placement("a"), a_placement("a"))
    followed = Followed[NodeName]()
    await world.bus.follow(channels.NODE_PLACEMENTS.reading(NodeName), followed)
    assert followed.messages == [NodeName("a")]


async def test_subscribe_latest_without_values_returns_at_once(world: World) -> None:
    """It returns at once when there are no values; later messages are delivered."""
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    await publish_node(world, "a")
    await received.until(1)
    assert not received.deliveries[0].replayed


async def test_subscribe_latest_delivers_only_what_matches_the_pattern(world: World) -> None:
    """A subscription to nodes does not deliver cycles, which are in the same stream."""
    await world.inject(subjects.utilization_cycle("all"), b"{}")
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    await publish_node(world, "a")
    await received.until(1)
    assert [m.node for m in received.messages] == ["a"]
    assert world.bus.errors.total("unreadable") == 0


async def test_a_subject_without_a_stream_has_no_last_values(world: World) -> None:
    """It is an error of the caller, raised at once."""
    with pytest.raises(ValueError, match="subscribe"):
        await world.bus.subscribe_latest(f"{subjects.PREFIX}.health.*.*", Heartbeat, Received())
    with pytest.raises(ValueError, match="subscribe"):
        await world.bus.subscribe_latest(f"{subjects.PREFIX}.eviction.intent.*.*", EvictionIntent, Received())


async def test_subscribe_delivers_messages_published_from_now_on(world: World) -> None:
    """Messages published after the subscription are delivered, whether a stream stores them or not."""
    await publish_node(world, "a")
    nodes: Received[NodeUtilization] = Received()
    health: Received[Heartbeat] = Received()
    await world.bus.subscribe(NODES, NodeUtilization, nodes)
    await world.bus.subscribe(f"{subjects.PREFIX}.health.>", Heartbeat, health)
    await publish_node(world, "b")
    receipt = await world.bus.publish(subjects.health("scorer", "one"), a_heartbeat())
    await nodes.until(1)
    await health.until(1)
    assert [m.node for m in nodes.messages] == ["b"]
    assert receipt.sequence == 0


async def test_names_with_dots_are_one_token(world: World) -> None:
    """A node whose name has dots matches a pattern with one token for the name."""
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    await publish_node(world, "ip-10-0-0-1.eu.internal")
    await received.until(1)
    assert received.deliveries[0].subject.endswith(".ip-10-0-0-1_eu_internal")
    assert received.messages[0].node == "ip-10-0-0-1.eu.internal"


async def test_a_handler_gets_one_message_at_a_time_in_order(world: World) -> None:
    """Messages of one subscription are handled one after the other, in the order in which they were published."""
    running = 0
    order: list[float] = []
    done = asyncio.Event()

    async def on_utilization(delivery: Delivery[NodeUtilization]) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        order.append(delivery.message.windows["5m"].mean.cpu or 0)
        running -= 1
        if len(order) == 20:
            done.set()

    await world.bus.subscribe_latest(NODES, NodeUtilization, on_utilization)
    await world.bus.publish_many([(subjects.node_utilization(f"n{n}"), a_node_utilization(cpu=n)) for n in range(20)])
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    assert order == list(range(20))


async def test_a_message_that_cannot_be_decoded_is_counted_and_skipped(world: World) -> None:
    """It is counted; handlers get the valid messages before and after it."""
    await world.inject(subjects.node_utilization("bad"), b'{"node": 7}')
    followed: Received[NodeUtilization] = Received()
    listened: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    await world.bus.subscribe(NODES, NodeUtilization, listened)
    await world.inject(subjects.node_utilization("worse"), b"\xff no JSON")
    await publish_node(world, "a")
    await followed.until(1)
    await listened.until(1)
    assert [m.node for m in followed.messages + listened.messages] == ["a", "a"]
    assert world.bus.errors.total("unreadable") == 3


@pytest.mark.parametrize("headers", [{}, {"ce-subject": subjects.node_utilization("b")}], ids=["none", "another"])
async def test_a_message_that_was_published_for_another_subject_is_counted_and_skipped(
    world: World, headers: dict[str, str]
) -> None:
    """Also when it is the last one of its subject; the next one replaces it."""
    await world.inject(subjects.node_utilization("a"), msgspec.json.encode(a_node_utilization("a")), headers)
    followed: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    assert followed.messages == []
    assert world.bus.errors.total("redirected") == 1
    await publish_node(world, "a")
    await followed.until(1)
    assert not followed.deliveries[0].replayed


async def test_a_message_of_another_type_is_counted_and_skipped(world: World) -> None:
    """A later version may publish one on the same subjects; its fields may have other meanings."""
    subject, payload = subjects.node_utilization("a"), msgspec.json.encode(a_node_utilization("a"))
    await world.inject(subject, payload, {"ce-subject": subject, "ce-type": "dev.equipoise.NodeUtilization.v2"})
    followed: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    assert followed.messages == []
    assert world.bus.errors.total("other_type") == 1
    await publish_node(world, "a")
    await followed.until(1)
    assert world.bus.errors.total("unreadable") == 0


async def test_unknown_fields_are_ignored_however_deep_they_are(world: World) -> None:
    """One that is nested too deeply to be read makes its message unreadable, and ends no subscription."""
    payload = msgspec.json.encode(a_node_utilization("a"))
    followed: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    for depth in (100_000, 10):
        later = payload[:-1] + b',"later":' + b"[" * depth + b"]" * depth + b"}"
        await world.inject(subjects.node_utilization("a"), later)
    await followed.until(1)
    assert followed.messages == [a_node_utilization("a")]
    assert world.bus.errors.total("unreadable") == 1


async def test_a_handler_that_fails_gets_the_next_message(world: World) -> None:
    """An exception in a handler is counted and is the end of that message only."""
    received: Received[NodeUtilization] = Received()

    async def on_utilization(delivery: Delivery[NodeUtilization]) -> None:
        await received(delivery)
        if delivery.message.node == "a":
            raise RuntimeError("boom")

    await world.bus.subscribe_latest(NODES, NodeUtilization, on_utilization)
    await publish_node(world, "a")
    await publish_node(world, "b")
    await received.until(2)
    assert world.bus.errors.total("handler") == 1


async def test_a_second_intent_for_a_waiting_pod_is_refused(world: World) -> None:
    """The queue refuses a second message of a subject until the first is settled."""
    await intend(world)
    with pytest.raises(AlreadyQueued):
        await intend(world)
    await intend(world, "web-2")
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await workers.tried.until(2)
    working.cancel()
    await asyncio.wait([working])
    await intend(world)


async def test_a_message_published_twice_with_one_id_is_stored_once(world: World) -> None:
    """The second publish with a message id returns a duplicate with the same sequence; it is processed once."""
    subject, intent = subjects.eviction_intent("shop", "web-1"), an_intent()
    first = await world.bus.publish(subject, intent, message_id="one")
    second = await world.bus.publish(subject, intent, message_id="one")
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.sequence == second.sequence > 0
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await workers.tried.until(1)
    await intend(world, "web-2")
    await workers.tried.until(2)
    assert workers.pods == ["web-1", "web-2"]
    working.cancel()


async def test_work_is_delivered_again_when_a_worker_requests_it(world: World) -> None:
    """Redeliver delivers the message again, after the requested time and not before."""
    loop = asyncio.get_running_loop()
    tried_at: list[float] = []
    done = asyncio.Event()

    async def work(delivery: Delivery[EvictionIntent]) -> Redeliver | None:
        tried_at.append(loop.time())
        if len(tried_at) == 1:
            return Redeliver(after=0.3)
        done.set()
        return None

    working = asyncio.create_task(world.bus.work(EvictionIntent, work))
    await intend(world)
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    assert tried_at[1] - tried_at[0] >= 0.29
    working.cancel()


async def test_work_that_failed_is_delivered_again(world: World) -> None:
    """An exception in a worker is counted, and the message comes again after a pause."""
    workers = Workers(RuntimeError("boom"))
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await intend(world)
    await workers.tried.until(2)
    assert world.bus.errors.total("worker") == 1
    working.cancel()


async def test_work_that_always_fails_is_removed_and_no_longer_blocks_its_pod(world: World) -> None:
    """A message that was often delivered in vain is removed, so that the pod may have another intent.

    The last delivery is marked for the worker.
    """
    workers = Workers(*(Redeliver(after=0.01) for _ in range(MAX_DELIVERIES)))
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await intend(world)
    await workers.tried.until(MAX_DELIVERIES)
    assert [delivery.last_attempt for delivery in workers.tried.deliveries] == [False] * (MAX_DELIVERIES - 1) + [True]
    await eventually(lambda: world.bus.errors.total("delivered_too_often") == 1)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await intend(world, message_id="another")
                break
            except AlreadyQueued:
                await asyncio.sleep(0.01)
    await workers.tried.until(MAX_DELIVERIES + 1)
    assert workers.pods == ["web-1"] * (MAX_DELIVERIES + 1)
    working.cancel()


async def test_work_that_cannot_be_decoded_is_removed_from_the_queue(world: World) -> None:
    """Garbage in the queue is acknowledged, so that its pod is free for a whole intent."""
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await world.inject(subjects.eviction_intent("shop", "web-1"), b"{}")
    await eventually(lambda: world.bus.errors.total("unreadable") == 1)
    await intend(world, "web-2")
    await workers.tried.until(1)
    await intend(world, "web-1")
    await workers.tried.until(2)
    assert workers.pods == ["web-2", "web-1"]
    working.cancel()


async def test_work_of_another_type_is_counted_and_removed(world: World) -> None:
    """It reaches no worker, is not delivered again, and does not block its subject."""
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    subject = subjects.eviction_intent("shop", "web-1")
    headers = {"ce-subject": subject, "ce-type": "dev.equipoise.MigrationIntent.v1"}
    await world.inject(subject, msgspec.json.encode(an_intent("web-1")), headers)
    await eventually(lambda: world.bus.errors.total("other_type") == 1)
    await intend(world, "web-2")
    await workers.tried.until(1)
    await intend(world, "web-1")
    await workers.tried.until(2)
    assert workers.pods == ["web-2", "web-1"]
    assert world.bus.errors.total("other_type") == 1
    working.cancel()


async def test_every_message_is_a_cloudevent_with_a_trace(world: World) -> None:
    """Each carries the headers of CloudEvents and of W3C trace context; ids and traces are never the same twice."""
    async with world.observing() as observed:
        await world.bus.publish(subjects.health("scorer", "one"), a_heartbeat())
        await intend(world, message_id="intent-1")
        await world.bus.publish_many([(subjects.node_utilization("a"), a_node_utilization("a"))] * 2)
        headers = await observed.headers(4)
    for each, kind in zip(headers, ("Heartbeat", "EvictionIntent", "NodeUtilization", "NodeUtilization"), strict=True):
        assert each["ce-specversion"] == "1.0"
        assert each["ce-id"] == each["Nats-Msg-Id"]
        assert each["ce-source"].startswith("/equipoise/")
        assert each["ce-type"] == f"dev.equipoise.{kind}.v1"
        assert each["ce-datacontenttype"] == "application/json"
        published_at = datetime.fromisoformat(each["ce-time"])
        assert published_at.utcoffset() == timedelta(0)
        assert abs(published_at.timestamp() - SystemClock().now()) < 60
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", each["traceparent"])
    assert headers[1]["ce-id"] == "intent-1"
    assert len({each["ce-id"] for each in headers}) == len({trace_of(each) for each in headers}) == 4


def trace_of(headers: dict[str, str]) -> str:
    return headers["traceparent"].split("-")[1]


async def test_messages_published_because_of_a_message_have_its_trace(world: World) -> None:
    """In a worker, a handler and an endpoint, each with its own span; later messages have another trace."""

    async def work(delivery: Delivery[EvictionIntent]) -> None:
        await world.bus.publish(subjects.eviction_outcome("shop", delivery.message.pod), a_heartbeat())

    async def on_utilization(delivery: Delivery[NodeUtilization]) -> None:
        await world.bus.publish(subjects.health("handler", delivery.message.node), a_heartbeat())

    async def reply(query: ExplainRequest) -> Explanation:
        await world.bus.publish(subjects.health("endpoint", "one"), a_heartbeat())
        return Explanation()

    endpoint = Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=reply)
    stop = await world.bus.serve("scorer", [endpoint])
    working = asyncio.create_task(world.bus.work(EvictionIntent, work))
    async with world.observing() as observed:
        await intend(world)
        intent, outcome = await observed.headers(2)
    await world.bus.subscribe_latest(NODES, NodeUtilization, on_utilization)
    await world.bus.subscribe(NODES, NodeUtilization, on_utilization)
    async with world.observing() as observed:
        await publish_node(world, "a")
        utilization, *handled = await observed.headers(3)
    async with world.observing() as observed:
        await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=PATIENCE)
        *earlier, last = await observed.headers(1 if isinstance(world, MemoryWorld) else 2)
    working.cancel()
    await stop()

    assert trace_of(outcome) == trace_of(intent)
    assert outcome["traceparent"] != intent["traceparent"]
    assert {trace_of(each) for each in handled} == {trace_of(utilization)}
    assert trace_of(last) not in {trace_of(intent), trace_of(utilization)}
    assert {trace_of(last)} >= {trace_of(each) for each in earlier}


async def test_workers_share_the_work(world: World) -> None:
    """Two replicas with two workers each get every intent once, several at a time."""
    busy, most = 0, 0
    pods: list[str] = []
    all_at_once, done = asyncio.Event(), asyncio.Event()

    async def work(delivery: Delivery[EvictionIntent]) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 4:
            all_at_once.set()
        await all_at_once.wait()
        await asyncio.sleep(0.02)
        pods.append(delivery.message.pod)
        busy -= 1
        if len(pods) == 12:
            done.set()

    async with world.another("binder") as other:
        working = [asyncio.create_task(bus.work(EvictionIntent, work, concurrency=2)) for bus in (world.bus, other)]
        for number in range(12):
            await intend(world, f"web-{number}")
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        for task in working:
            task.cancel()
        await asyncio.wait(working)
    assert sorted(pods) == sorted(f"web-{number}" for number in range(12))
    assert most == 4


async def test_the_message_of_a_stopped_worker_goes_to_another_at_once(world: World) -> None:
    """When a worker is cancelled in the middle of a message, another one gets it without waiting."""
    begun = asyncio.Event()

    async def never_ends(delivery: Delivery[EvictionIntent]) -> None:
        begun.set()
        await asyncio.Event().wait()

    stopping = asyncio.create_task(world.bus.work(EvictionIntent, never_ends))
    await intend(world)
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    stopping.cancel()
    await asyncio.wait([stopping])
    assert stopping.cancelled()
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await workers.tried.until(1)
    working.cancel()


async def rank(query: ExplainRequest) -> Explanation:
    return Explanation(considered=len(query.nodes))


async def test_a_request_gets_its_response(world: World) -> None:
    """A request reaches the endpoint of its subject and comes back as a message."""
    await world.bus.serve(
        "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=rank)]
    )
    reply = await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=PATIENCE)
    assert reply == Explanation(considered=2)


async def test_a_stopped_service_gets_no_more_requests(world: World) -> None:
    """Then there is no response, or one of the next service; the bus continues to work."""
    endpoint = Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=rank)
    stop = await world.bus.serve("scorer", [endpoint])
    await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=PATIENCE)
    await stop()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(NoResponders):
            await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=1_000)

    await world.bus.serve("scorer", [endpoint])
    await stop()
    assert await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=PATIENCE)


async def test_a_request_without_a_responder_fails_at_once(world: World) -> None:
    """It raises NoResponders without waiting for the timeout."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(NoResponders):
            await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=1_000)


async def test_the_error_of_an_endpoint_is_raised_in_the_caller(world: World) -> None:
    """An exception of an endpoint, or an invalid request, is a BusError with its text in the caller."""

    async def fail(query: ExplainRequest) -> Explanation:
        raise RuntimeError("no nodes known")

    await world.bus.serve(
        "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=fail)]
    )
    with pytest.raises(BusError, match="no nodes known"):
        await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=PATIENCE)
    with pytest.raises(BusError, match="pod"):
        await world.bus.request(subjects.SCORE_EXPLAIN, an_intent(), Explanation, timeout=PATIENCE)
    assert world.bus.errors.total("endpoint") == 1
    assert world.bus.errors.total("unreadable") == 1


async def test_a_response_after_the_timeout_is_an_error(world: World) -> None:
    """A request ends at its time with BusUnavailable."""

    async def dawdle(query: ExplainRequest) -> Explanation:
        await asyncio.sleep(0.5)
        return Explanation()

    await world.bus.serve(
        "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=dawdle)]
    )
    with pytest.raises(BusUnavailable, match="within"):
        await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=0.05)


async def test_a_flood_of_requests_is_refused_and_everything_else_gets_its_turn(world: World) -> None:
    """Requests take a share of the time; more are refused with what to do, or dropped."""
    ended = False
    turns = 0
    before_each: list[int] = []

    async def compute(query: ExplainRequest) -> Explanation:
        before_each.append(turns)
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        return Explanation()

    async def other_work() -> None:
        nonlocal turns
        while not ended:
            turns += 1
            await asyncio.sleep(0)

    async def ask() -> str:
        try:
            await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=5)
        except BusError as error:
            return str(error)
        return ""

    await world.bus.serve(
        "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=compute)]
    )
    working = asyncio.create_task(other_work())
    responses = await asyncio.gather(*(ask() for _ in range(60)))
    ended = True
    await working

    refused = [text for text in responses if "too many requests: this service spends at most 20% of its time" in text]
    assert 1 <= responses.count("")
    assert len(refused) >= 30
    assert "try again in" in refused[0]
    assert world.bus.errors.total("refused_request") == len(refused)
    assert len(set(before_each)) == len(before_each), "other work has a turn between two requests"


async def test_publish_many_returns_how_many_were_stored(world: World) -> None:
    """publish_many counts what was kept, and raises when nothing was."""
    intents = [(subjects.eviction_intent("shop", pod), an_intent(pod)) for pod in ("web-1", "web-2")]
    assert await world.bus.publish_many(intents) == 2
    three = [*intents, (subjects.eviction_intent("shop", "web-3"), an_intent("web-3"))]
    assert await world.bus.publish_many(three) == 1
    with pytest.raises(AlreadyQueued):
        await world.bus.publish_many(intents)
    assert await world.bus.publish_many([]) == 0
    received: Received[NodeUtilization] = Received()
    await world.bus.publish_many(
        [(subjects.node_utilization(f"n{n}"), a_node_utilization(f"n{n}")) for n in range(600)]
    )
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    assert len(received.messages) == 600


async def test_a_message_that_is_too_large_raises_too_large(world: World) -> None:
    """A message above the server's limit raises TooLarge with its subject, and the connection remains."""

    class Large(msgspec.Struct):
        text: str

    with pytest.raises(TooLarge, match=r"utilization\.node\.a.*bytes"):
        await world.bus.publish(subjects.node_utilization("a"), Large(text="x" * 2**20))
    await publish_node(world, "a")


async def test_a_message_that_is_too_large_with_its_headers_raises_too_large(world: World) -> None:
    """The server counts them, and closes the connection of who sends more: sizes around the limit are refused here."""

    class Large(msgspec.Struct):
        text: str

    for missing in (0, 20, 100, 450, 2_000):
        with pytest.raises(TooLarge):
            await world.bus.publish(subjects.node_utilization("a"), Large(text="x" * (2**20 - missing - 11)))
    await publish_node(world, "a")


def a_crowded_placement(present: int, gone: int) -> NodePlacement:
    """Pods with names, owners and tolerations of almost full length."""
    workload, names = a_workload("o" * 253), [f"{number}-{'x' * 247}" for number in range(present + gone)]
    tolerations = tuple(Toleration(key=f"{number}-{'k' * 300}", operator="Exists") for number in range(5))
    left = [
        GonePod(uid=name, namespace="shop", name=name, workload=workload, running_since=NOW - 60, gone_at=NOW + number)
        for number, name in enumerate(names[present:])
    ]
    pods = [a_placed_pod(name, workload=workload, tolerations=tolerations) for name in names[:present]]
    return a_placement("a", pods, gone=left)


async def test_a_placement_that_is_too_large_is_published_smaller_and_named_until_it_fits(world: World) -> None:
    """All of its pods are in it. Long names of pods must not hide their node."""
    received: Received[NodePlacement] = Received()
    crowded, subject = a_crowded_placement(250, 500), subjects.node_placement("a")
    await world.bus.publish_many([(subject, crowded)])
    await world.bus.subscribe_latest(subject, NodePlacement, received)
    [placement] = received.messages
    [problem] = world.bus.problems
    assert (250, crowded.gone[-250:]) == (len(placement.pods), placement.gone)
    assert re.search(r"node\.a: the message has \d+ bytes.*published without the 250 pods that left first", problem)

    await world.bus.publish(subject, a_placement("a", sequence=2))
    assert list(world.bus.problems) == []


async def test_a_placement_that_is_too_large_for_all_of_its_constraints_is_published_without(world: World) -> None:
    """Its pods, their requests and workloads are more important than where else they could run."""
    received: Received[NodePlacement] = Received()
    subject = subjects.node_placement("a")
    await world.bus.publish(subject, a_crowded_placement(600, 10))
    await world.bus.subscribe_latest(subject, NodePlacement, received)
    [placement] = received.messages
    [problem] = world.bus.problems
    assert (600, []) == (len(placement.pods), placement.gone)
    assert {((), a_workload("o" * 253))} == {(pod.tolerations, pod.workload) for pod in placement.pods}
    assert "published without the tolerations and node selectors of all pods and the 10 pods that left" in problem


@pytest.mark.parametrize(
    "name", ["", "a b", "a\r\nPUB x 0", "*", ">", "a..b", "\x00", "x" * 5_000], ids=lambda name: repr(name)[:12]
)
async def test_a_name_that_no_subject_can_contain_is_an_error_of_this_message(world: World, name: str) -> None:
    """The server would close the connection, or store a message that nobody finds."""
    with pytest.raises(InvalidSubject, match="what is no name of a Kubernetes object"):
        await world.bus.publish(f"equipoise.utilization.node.{name}", a_node_utilization("a"))
    await publish_node(world, "a")


async def test_without_a_connection_nothing_is_published_also_not_later(world: World) -> None:
    """Without a connection everything raises at once; afterwards only messages published then arrive."""
    assert world.bus.connected
    assert list(world.bus.problems) == []
    await world.disconnect()
    assert not world.bus.connected
    await eventually(lambda: any("not connected" in problem for problem in world.bus.problems))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BusUnavailable):
            await intend(world, "web-1")
        with pytest.raises(BusUnavailable):
            await world.bus.publish_many([(subjects.node_utilization("a"), a_node_utilization("a"))])
        with pytest.raises(BusUnavailable):
            await world.bus.publish(subjects.health("scorer", "one"), a_heartbeat())
        with pytest.raises(BusUnavailable):
            await world.bus.request(subjects.SCORE_EXPLAIN, REQUEST, Explanation, timeout=1_000)
    await world.reconnect()
    assert list(world.bus.problems) == []
    workers = Workers()
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await intend(world, "web-2")
    await workers.tried.until(1)
    assert workers.pods == ["web-2"]
    working.cancel()


async def test_everything_continues_after_a_lost_connection(world: World) -> None:
    """subscribe_latest delivers the last values again, then new ones; subscribe and workers continue."""
    followed: Received[NodeUtilization] = Received()
    listened: Received[NodeUtilization] = Received()
    workers = Workers()
    await publish_node(world, "a")
    await world.bus.subscribe_latest(NODES, NodeUtilization, followed)
    await world.bus.subscribe(NODES, NodeUtilization, listened)
    working = asyncio.create_task(world.bus.work(EvictionIntent, workers))
    await intend(world, "web-1")
    await workers.tried.until(1)
    await world.disconnect()
    await world.reconnect()
    await followed.until(2)
    assert followed.deliveries[1].replayed
    await publish_node(world, "b")
    await intend(world, "web-2")
    await followed.until(lambda deliveries: deliveries[-1].message.node == "b")
    await listened.until(1)
    await workers.tried.until(2)
    assert workers.pods == ["web-1", "web-2"]
    working.cancel()


ABSURD = (
    b'{"node":"%s","uid":"u","base":{"cpu":8,"memory":1},"sampled_at":1.0,"queried_at":1.0,"windows":{},'
    b'"pods":{"p":{"cpu":1e39}},"epoch":1,"sequence":1}'
)


async def test_a_message_with_an_absurd_number_is_skipped_and_named_until_a_later_one_can_be_read(world: World) -> None:
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    await world.inject(subjects.node_utilization("a"), ABSURD % b"a")
    await publish_node(world, "b")
    await received.until(1)

    assert [message.node for message in received.messages] == ["b"]
    assert [(source, name) for source, name, _ in world.bus.unreadable] == [
        ("messages", subjects.node_utilization("a"))
    ]
    assert "1e+06" in world.bus.unreadable.problems[0] or "1000000" in world.bus.unreadable.problems[0]

    await publish_node(world, "a")
    await received.until(2)
    await eventually(lambda: not list(world.bus.unreadable))


async def test_an_epoch_of_the_far_future_is_skipped_and_named(world: World) -> None:
    """It would hide all later messages of its subject, and none could be higher."""
    received: Received[NodeUtilization] = Received()
    await world.bus.subscribe_latest(NODES, NodeUtilization, received)
    absurd = ABSURD.replace(b"1e39", b"1")
    for node, epoch in (("a", 2**53), ("b", round(1_000 * (SystemClock().now() + EPOCH_AHEAD - 60)))):
        await world.inject(
            subjects.node_utilization(node), absurd.replace(b'"epoch":1', b'"epoch":%d' % epoch) % node.encode()
        )
    await received.until(1)

    assert [message.node for message in received.messages] == ["b"]
    assert "ahead of this clock" in world.bus.unreadable.problems[0]


async def test_a_handler_that_fails_is_named_and_receives_the_next_messages(world: World) -> None:
    received: list[str] = []

    async def fail_for_a(delivery: Delivery[NodeUtilization]) -> None:
        received.append(delivery.message.node)
        if delivery.message.node == "a":
            raise OverflowError("cannot convert float infinity to integer")

    await world.bus.subscribe_latest(NODES, NodeUtilization, fail_for_a)
    for node in ("a", "b"):
        await publish_node(world, node)
    await eventually(lambda: received == ["a", "b"])

    assert world.bus.unreadable.problems == [
        f"messages: 1 cannot be read: {subjects.node_utilization('a')} "
        "(node a: cannot convert float infinity to integer)"
    ]
