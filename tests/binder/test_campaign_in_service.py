"""Two binders that carry out one campaign, from its start to its end."""

from pathlib import Path
from typing import Any

import msgspec
from binder.campaigns import a_campaign, an_effect
from binder.worlds import GENEROUS, LEADER, OWN, World
from builders import NOW
from bus_worlds import NatsWorld
from cli.buses import Bus

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerNamespace, Limits
from equipoise.binder.shell import campaign_store
from equipoise.binder.state.campaign import Campaign
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import CampaignEffect, DescheduleDecision, EvaluatedCluster, LoadExtremes
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.process.clock import SystemClock

LIMITS = Limits(
    **{
        name: getattr(GENEROUS, name)
        for name in ("migrating_per_node", "evictions_per_workload", "unusual_rate", "rate", "startup_grace_period")
    },
    evictions_per_namespace=EvictionsPerNamespace(max=1),
    evictions_per_cluster=EvictionsPerCluster(max=1),
)
"""One eviction in ten minutes, if no campaign permits more."""

EVALUATIONS = "decision.descheduler.>"
"""A part of the subject in the permissions to read evaluations."""

SECOND_LEADER = msgspec.structs.replace(LEADER, transitions=2, holder="descheduler-2")

EVICTED, REFUSED = Outcome.EVICTED, Outcome.REJECTED_LIMIT


async def two_binders(world: World) -> None:
    for _ in range(2):
        await world.start(world.binder(limits=LIMITS))


async def start(world: World, **fields: Any) -> None:
    """A campaign, with an evaluation like its plan."""
    new = a_campaign(observed_at=0.0, **fields)
    await campaign_store.start(world.kube, OWN, world.clock, new, lasts=3_600)
    await publish_evaluation(world, 0.6)


def campaign(world: World) -> Campaign:
    assert world.ledger.campaign is not None
    return world.ledger.campaign


async def publish_evaluation(world: World, spread: float, **fields: Any) -> None:
    """An evaluation after one second, which the binders compare with the plan within ten seconds."""
    await world.clock.advance(1.0)
    loads = LoadExtremes(highest=Resources(cpu=0.9), spread=Resources(cpu=spread, memory=0.1))
    defaults: dict[str, Any] = {"nodes": 50, "unscheduled": 1, "campaign": CampaignEffect()}
    cluster = EvaluatedCluster(loads=loads, **(defaults | fields))
    decision = DescheduleDecision(
        strategy="low_node_load", evaluated_at=world.clock.now(), nodes=[], intents=[], cluster=cluster
    )
    await world.bus.publish(subjects.decision("descheduler", "low_node_load"), decision)
    await world.clock.advance(12.0)


async def test_two_binders_make_no_more_moves_than_the_budget(world: World) -> None:
    """Ten intents arrive at once. What exceeds the budget has the usual limits, which count the moves of the campaign.

    Afterwards the campaign has ended, and outcomes, Events and entries have its name.
    """
    await two_binders(world)
    await start(world, budget=3)
    await world.propose(*(f"{app}-{number}" for app in ("web", "db") for number in range(1, 6)))
    await world.clock.advance(12.0)

    assert sorted(outcome.outcome for outcome in world.outcomes) == [EVICTED] * 3 + [REFUSED] * 7
    assert len(world.evicted) == campaign(world).used == 3
    assert {outcome.campaign for outcome in world.outcomes if outcome.outcome is EVICTED} == {"chg-1"}
    assert {outcome.campaign for outcome in world.outcomes if outcome.outcome is REFUSED} == {""}
    assert [entry.campaign for entry in world.ledger.entries if entry.counted] == ["chg-1"] * 3
    of_pods = [event for event in world.kube.events if event.reason == "Descheduled"]
    assert all('evicted from node "node-a" in campaign "chg-1" by the reason' in event.note for event in of_pods)
    assert campaign(world).ended == "used its budget of 3 moves"


async def test_the_end_of_a_campaign_is_one_event_of_all_binders(world: World) -> None:
    """Of the ledger, which nobody deletes."""
    await two_binders(world)
    await start(world, budget=1)
    await world.propose("web-1")
    await world.clock.advance(24.0)

    [event] = [event for event in world.kube.events if event.action == "Rebalancing"]
    assert (event.type, event.reason) == ("Normal", "CampaignEnded")
    assert (event.regarding.kind, event.regarding.name) == ("ConfigMap", "equipoise-ledger")
    assert event.metadata.namespace == OWN
    assert event.note == 'Campaign "chg-1" made 1 of 1 moves and has ended: used its budget of 1 moves'


async def test_a_campaign_that_stopped_is_a_warning(world: World) -> None:
    await two_binders(world)
    await start(world)
    for _ in range(2):
        await publish_evaluation(world, 0.9, campaign=an_effect(0.6))
    await world.clock.advance(12.0)

    [event] = [event for event in world.kube.events if event.action == "Rebalancing"]
    assert (event.type, event.reason) == ("Warning", "CampaignStopped")
    assert "has ended: stopped: the spread of cpu is 90.0 points" in event.note


async def test_a_binder_that_starts_long_after_a_campaign_writes_no_event_about_it(world: World) -> None:
    await start(world)
    await campaign_store.abort(world.kube, OWN, world.clock, "aborted")
    await world.clock.advance(3_600.0)
    await two_binders(world)
    await world.clock.advance(12.0)

    assert world.kube.events == []


async def test_the_usual_limits_hold_before_and_after_a_campaign(world: World) -> None:
    await two_binders(world)
    await world.propose("web-1", "db-1")
    assert sorted(outcome.outcome for outcome in world.outcomes) == [EVICTED, REFUSED]
    await start(world)
    await world.propose("web-2", "db-2")
    assert len(world.evicted) == 3
    await campaign_store.abort(world.kube, OWN, world.clock, "aborted")
    await world.propose("web-3", "db-3")
    assert len(world.evicted) == 3


async def test_a_paused_campaign_permits_nothing(world: World) -> None:
    await two_binders(world)
    await start(world)
    await world.propose("web-1")
    await campaign_store.set_paused(world.kube, OWN, world.clock, paused=True)
    await world.propose("web-2")
    assert len(world.evicted) == 1
    await campaign_store.set_paused(world.kube, OWN, world.clock, paused=False)
    await world.propose("web-3")
    assert [eviction.name for eviction in world.evicted] == ["web-1", "web-3"]


async def test_a_campaign_stops_when_its_moves_make_the_spread_worse(world: World) -> None:
    """The heartbeat has its progress while it runs."""
    await two_binders(world)
    await start(world)
    assert world.health.campaign.startswith("campaign chg-1: 0 of 8 moves, spread of cpu 60.0 points (planned 60.0)")
    assert world.health.campaign_permits
    await publish_evaluation(world, 0.7, campaign=an_effect(0.6))
    await world.propose("web-1")
    assert not world.health.campaign_permits
    assert (campaign(world).used, campaign(world).finding) == (0, "spread")
    await publish_evaluation(world, 0.7, campaign=an_effect(0.6))
    assert campaign(world).ended.startswith("stopped: the spread of cpu is 70.0 points: without 4 measured moves")
    await world.clock.advance(12.0)
    assert world.health.campaign == ""


async def test_a_campaign_goes_on_after_all_binders_were_killed(world: World) -> None:
    """All that it has done is in the ledger."""
    await two_binders(world)
    await start(world, budget=2)
    await world.propose("web-1")
    for task in world._running:
        task.cancel()
    await two_binders(world)
    await world.propose("web-2")
    await world.propose("web-3")
    assert [eviction.name for eviction in world.evicted] == ["web-1", "web-2"]
    assert (campaign(world).name, campaign(world).used) == ("chg-1", 2)


async def test_a_new_leader_of_the_descheduler_has_what_is_left_of_the_budget(world: World) -> None:
    """Whatever it knows of the moves before it: they are counted in the ledger."""
    await two_binders(world)
    await start(world, budget=2)
    await world.propose("web-1")
    world.elect_another_leader()
    await publish_evaluation(world, 0.6, campaign=CampaignEffect())
    await world.propose("web-2", "web-3", epoch=SECOND_LEADER)
    await world.clock.advance(12.0)

    assert len(world.evicted) == campaign(world).used == 2
    assert campaign(world).ended == "used its budget of 2 moves"


async def test_dry_runs_use_no_move_of_a_campaign(world: World) -> None:
    await world.start(world.binder(limits=LIMITS, evict=False))
    await start(world)
    await world.propose("web-1")
    assert (world.outcomes[0].outcome, campaign(world).used) == (Outcome.DRY_RUN, 0)
    assert NOW <= campaign(world).started_at


async def test_without_an_evaluation_a_campaign_permits_nothing(world: World) -> None:
    """Nobody would notice that the cluster becomes worse."""
    await two_binders(world)
    await campaign_store.start(world.kube, OWN, world.clock, a_campaign(observed_at=0.0), lasts=3_600)
    await world.propose("web-1", "db-1")
    assert (len(world.evicted), campaign(world).used) == (1, 0)


async def test_a_binder_works_with_the_permissions_of_an_earlier_version(world: World, tmp_path: Path) -> None:
    """It may not read evaluations, so that campaigns permit nothing; its other work is not affected."""
    file = permission_file({user: f"secret of {user}" for user in USERS})
    server = NatsWorld(tmp_path / "nats", "\n".join(line for line in file.splitlines() if EVALUATIONS not in line))
    await server.start()
    bus = Bus(tmp_path, server.settings.url)
    try:
        await setup_streams(bus.settings("setup"), intent_max_age=60)
        async with open_bus(bus.settings("binder"), "binder", SystemClock(), None) as connection:
            await world.binder(bus=connection).attach()
            assert any(EVALUATIONS in problem for problem in connection.problems)
    finally:
        await server.stop()
