"""The real scorer, which prints when it has processed a whole cycle of node messages.

WATCHED_NODES: number of messages with the same sequence in a cycle. One line per cycle: its sequence, and the
machine's monotonic time.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from equipoise.contracts.bus.channels import Channel, M
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import Bus, OnMessages
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run
from equipoise.scorer.__main__ import start as start_scorer
from equipoise.scorer.settings import ScorerSettings


class WatchedBus:
    """A bus that counts the handled node messages."""

    def __init__(self, bus: Bus, nodes: int) -> None:
        self._bus = bus
        self._nodes = nodes
        self._handled: Counter[int] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def follow_many(self, channel: Channel[M], on_messages: OnMessages[M]) -> None:
        def counted(messages: Sequence[M], now: float) -> Sequence[bool]:
            used = on_messages(messages, now)
            for message in messages:
                if isinstance(message, NodeUtilization):
                    self._handled[message.sequence] += 1
                    if self._handled[message.sequence] == self._nodes:
                        print(message.sequence, time.monotonic(), flush=True)
            return used

        await self._bus.follow_many(channel, counted)


async def start(runtime: Runtime[ScorerSettings]) -> None:
    watched: Any = WatchedBus(runtime.bus, int(os.environ["WATCHED_NODES"]))
    await start_scorer(replace(runtime, message_bus=watched))


if __name__ == "__main__":
    run("scorer", ScorerSettings, start, kube=False)
