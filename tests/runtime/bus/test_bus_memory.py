"""What the in-memory bus adds for tests: a manual clock, and a record of messages."""

import asyncio

import msgspec
import pytest
from builders import a_node_utilization, a_reclaimed_node, an_intent
from bus_worlds import Received

from equipoise.contracts.bus import streams, subjects
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import BusUnavailable, Delivery, Endpoint, OutOfBounds, Redeliver
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock

NODES = f"{subjects.PREFIX}.utilization.node.*"


async def test_work_comes_again_by_the_clock_of_the_test() -> None:
    """Again waits for the manual clock, to the second."""
    clock = ManualClock()
    bus = MemoryBus(clock)
    tried_at: list[float] = []

    async def work(delivery: Delivery[EvictionIntent]) -> Redeliver | None:
        tried_at.append(clock.monotonic())
        return Redeliver(after=30)

    working = asyncio.create_task(bus.work(EvictionIntent, work))
    await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
    await clock.advance(29)
    assert tried_at == [0]
    await clock.advance(32)
    assert tried_at == [0, 30, 60]
    working.cancel()


async def test_messages_expire_by_the_clock_of_the_test() -> None:
    """Intents and last values expire."""
    clock = ManualClock()
    bus = MemoryBus(clock, streams=streams.with_max_ages(intent=10, utilization=100))
    await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
    await bus.publish(subjects.node_utilization("a"), a_node_utilization("a"))
    await clock.advance(11)
    await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
    await clock.advance(60)
    early: Received[NodeUtilization] = Received()
    await bus.subscribe_latest(NODES, NodeUtilization, early)
    assert len(early.messages) == 1
    await clock.advance(40)
    late: Received[NodeUtilization] = Received()
    await bus.subscribe_latest(NODES, NodeUtilization, late)
    assert late.messages == []


async def test_a_request_times_out_by_the_clock_of_the_test() -> None:
    """A request without a response ends when the manual clock has advanced by its timeout."""
    clock = ManualClock()
    bus = MemoryBus(clock)

    async def never(query: ExplainRequest) -> Explanation:
        await asyncio.Event().wait()
        raise AssertionError

    await bus.serve("scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=never)])
    query = ExplainRequest(namespace="shop", name="web-1", nodes=[])
    sending = asyncio.create_task(bus.request(subjects.SCORE_EXPLAIN, query, Explanation, timeout=2))
    await clock.advance(1.9)
    assert not sending.done()
    await clock.advance(0.2)
    with pytest.raises(BusUnavailable):
        await sending


async def test_published_messages_can_be_read() -> None:
    """`published` returns the messages of one kind on matching subjects, oldest first."""
    bus = MemoryBus(ManualClock())
    for node in ("a", "b"):
        await bus.publish(subjects.node_utilization(node), a_node_utilization(node))
    await bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent())
    assert [m.node for m in bus.published(NodeUtilization, NODES)] == ["a", "b"]
    assert bus.published(EvictionIntent, "equipoise.eviction.>") == [an_intent()]


async def test_a_sum_that_no_subscriber_could_read_is_not_published() -> None:
    """The error names the message and the amount. Others are published."""
    bus = MemoryBus(ManualClock())
    message = a_reclaimed_node()
    band = ReclaimedBand(offered=Resources(cpu=2e6))
    absurd = msgspec.structs.replace(message, bands={"batch": band})
    with pytest.raises(OutOfBounds, match=r"reclaim\.node\.b is not published: .*bands.*offered\.cpu"):
        await bus.publish(subjects.reclaimed_node("b"), absurd)
    await bus.publish(subjects.reclaimed_node("a"), message)
    assert bus.published(ReclaimedNode, "equipoise.reclaim.node.*") == [message]
