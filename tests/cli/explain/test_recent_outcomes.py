"""`equipoise explain eviction` without a name: the newest outcomes."""

import io
import json

import pytest
from builders import an_intent
from cli.buses import Bus
from cli.narrow import assert_never_cut
from descheduler.outcomes import an_outcome
from rich.console import Console

from equipoise.cli.bus.cluster import BusCluster
from equipoise.cli.explain.recent_outcomes import MAX_SHOWN, RecentOutcomes, show
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

CLUSTER = BusCluster(name=None, state="unknown", why="messages of nats://127.0.0.1:4222")

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


async def test_the_newest_outcomes_are_listed_with_the_command_that_explains_the_last_one(bus: Bus) -> None:
    clock = SystemClock()
    names = [f"web-{number}" for number in range(MAX_SHOWN + 2)]
    async with open_bus(bus.settings("binder"), "binder", clock, None) as binder:
        for name in names:
            intent = an_intent(name, decided_at=clock.now() - 3)
            outcome = an_outcome(Outcome.EVICTED, intent, settled_at=clock.now())
            await binder.publish(subjects.eviction_outcome("shop", name), outcome)
    code, text = await bus.run("explain", "eviction")
    _, encoded = await bus.run("explain", "eviction", "-o", "json")

    assert code == 0, text
    assert f"equipoise explain eviction shop/{names[-1]}" in text
    assert [found["pod"] for found in json.loads(encoded)["outcomes"]] == names[2:]


def test_without_an_outcome_the_command_names_the_plan() -> None:
    out = io.StringIO()
    show(RecentOutcomes(cluster=CLUSTER, outcomes=[]), Console(file=out, width=80))
    assert "no eviction and no dry run in the last 24 hours: `equipoise plan`" in out.getvalue()


def test_no_terminal_is_too_narrow_for_the_outcomes() -> None:
    outcomes = [an_outcome(Outcome.REJECTED_LIMIT, an_intent("web-1"), detail="5 of 5 in namespace shop")]
    recent = RecentOutcomes(cluster=CLUSTER, outcomes=outcomes)
    assert_never_cut(show, recent)
