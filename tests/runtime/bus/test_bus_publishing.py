"""What is sent to a stream that does not response, on an event loop whose waiting takes no time."""

import asyncio
import random
import selectors
from types import SimpleNamespace
from typing import Any

import pytest
from builders import a_node_utilization

from equipoise.contracts.bus import subjects
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.codec import Envelope
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import RESPONSE_TIMEOUT, NatsConnection
from equipoise.runtime.bus.nats.nats_bus import NatsBus
from equipoise.runtime.configuration import Nats
from equipoise.testbed.memory.clock import ManualClock

MANY = [(subjects.node_utilization(f"n{number}"), a_node_utilization(f"n{number}")) for number in range(20)]


class Passing(selectors.SelectSelector):
    """Lets time pass instead of waiting for it."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        self.passed += 0.0 if found else timeout or 0.0
        return found


def run(scenario: Any) -> float:
    """How many seconds it would have taken."""
    selector = Passing()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.passed  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario)
    return selector.passed


class Leaderless(SimpleNamespace):
    """A client whose connection is alive; the first messages are acknowledged, the others never."""

    is_connected = True
    max_payload = 2**20

    def __init__(self, acknowledged: int) -> None:
        super().__init__(acknowledged=acknowledged)

    def new_inbox(self) -> str:
        return "_INBOX.test"

    async def subscribe(self, _: str, *, cb: Any) -> None:
        self.deliver = cb

    async def publish(self, _: str, __: bytes, *, reply: str, headers: dict[str, str]) -> None:
        if self.acknowledged:
            self.acknowledged -= 1
            await self.deliver(SimpleNamespace(subject=reply, data=b'{"stream": "EQUIPOISE_UTILIZATION", "seq": 1}'))


async def a_bus(acknowledged: int) -> NatsBus:
    clock = ManualClock()
    link = NatsConnection(Nats(), "collector", BusErrors(clock))
    link.client = Leaderless(acknowledged)  # type: ignore[assignment]
    link._up.set()
    async with asyncio.TaskGroup() as tasks:
        return NatsBus(link, tasks, clock, Envelope("collector", clock, random.Random(1)), 5.0, 10.0)


@pytest.mark.parametrize("acknowledged", [0, 5])
def test_messages_sent_together_share_one_deadline(acknowledged: int) -> None:
    """A stream without a leader costs the patience for one response, however many messages wait for theirs."""

    async def publish_node() -> None:
        bus = await a_bus(acknowledged)
        if acknowledged:
            assert await bus.publish_many(MANY) == acknowledged
        else:
            with pytest.raises(BusUnavailable, match="within 5 s"):
                await bus.publish_many(MANY)
        assert bus.errors.total("publish") == len(MANY) - acknowledged

    assert run(publish_node()) == RESPONSE_TIMEOUT
