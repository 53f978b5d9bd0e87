"""The live view of what the five services publish."""

from typing import Any

from flow.loop import HOT, IDLE, INTERVAL, Loop, settled

from equipoise.cli.views.feed import SHOWN
from equipoise.cli.views.state import LiveState
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Delivery


async def test_the_view_shows_an_eviction_from_the_hot_node_to_its_effect() -> None:
    """Loads, requests, classes, spread and moves are those of the services."""
    loop = Loop()
    state = LiveState(loop.shared.load)

    async def on_message(delivery: Delivery[Any]) -> None:
        state.apply(delivery.message, loop.clock.now())

    async def pass_time(seconds: float) -> None:
        for _ in range(round(seconds / 10)):
            await loop.pass_time(10)
            state.tick(loop.clock.now())

    async with loop.running():
        for channel in CHANNELS:
            if channel.message in SHOWN:
                await loop.bus.subscribe(channel.pattern, channel.message, on_message)
        while not settled(loop, Outcome.EVICTED):
            await pass_time(10)
        before = state.everything()
        outcome = settled(loop, Outcome.EVICTED)[0]
        loop.place(outcome.pod.split("-")[0], f"{outcome.pod}-new", outcome.target)
        await pass_time(12 * INTERVAL)
        after = state.everything()
        intents = {intent.id for intent in loop.intents()}

    rows = {row.node: row for row in before.nodes}
    now = {row.node: row for row in after.nodes}
    moves = {move.id: move for move in after.moves}
    move = moves[outcome.intent_id]

    assert {HOT, *IDLE} == rows.keys()
    assert ("hot", True, 9) == (rows[HOT].state, 0.8 < (rows[HOT].cpu or 0) < 0.9, rows[HOT].pods)
    assert not [row.unknown for row in now.values() if row.unknown]
    assert (8, 1) == (now[HOT].pods, now[outcome.target].pods)
    assert (now[HOT].cpu or 0) < (rows[HOT].cpu or 0)
    assert (now[HOT].cpu_requests or 0) < (rows[HOT].cpu_requests or 0)
    assert ("evicted", "low_node_load", outcome.target) == (move.outcome, move.strategy, move.placed_on)
    assert "node is hot" in move.reason
    assert intents == moves.keys()
    assert all(each.outcome for each in moves.values())
    assert (after.points[-1].cpu or 0) < (before.points[-1].cpu or 0)
    assert before.summary is not None
    assert (3, 3, 3) == (before.summary.nodes, before.summary.known, before.summary.expected)
