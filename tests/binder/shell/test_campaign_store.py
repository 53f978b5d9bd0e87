"""Commands that start, pause and end campaigns in the ledger."""

import msgspec
import pytest
from binder.campaigns import a_campaign, an_effect, an_evaluation
from binder.ledgers import a_ledger
from binder.worlds import OWN, World

from equipoise.binder.decisions.campaign import continued
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.shell import campaign_store
from equipoise.binder.shell.ledger_store import LedgerStore, NotDone, StoredLedger, pause
from equipoise.binder.state.campaign import Campaign
from equipoise.runtime.kubernetes.client import Conflict


async def start(world: World, name: str = "chg-1", lasts: float = 3_600.0) -> Campaign:
    return await campaign_store.start(world.kube, OWN, world.clock, a_campaign(name), lasts=lasts)


async def test_a_campaign_starts_by_the_clock_of_the_api_server(world: World) -> None:
    """Also when the clock of the command is wrong."""
    world.kube.skew = 3.0
    started = await start(world, lasts=60.0)
    stored = await LedgerStore(world.kube, OWN).read()
    assert isinstance(stored, StoredLedger)
    assert stored.ledger.campaign == started
    assert started.started_at <= world.clock.now() + 3.0
    assert started.expires_at == started.started_at + 60.0


async def test_a_second_campaign_is_refused_until_the_first_has_ended(world: World) -> None:
    await start(world)
    with pytest.raises(NotDone, match="NOT started: campaign chg-1 is running"):
        await start(world, "chg-2")
    await campaign_store.abort(world.kube, OWN, world.clock, "aborted by alice")
    with pytest.raises(NotDone, match="an earlier campaign has the name chg-1"):
        await start(world)
    assert (await start(world, "chg-2")).name == "chg-2"


async def test_of_two_commands_at_once_one_starts_its_campaign(world: World) -> None:
    """The second one reads the ledger again, and finds the first one."""
    store = LedgerStore(world.kube, OWN)
    stored = await store.read()
    assert isinstance(stored, StoredLedger)
    await start(world)
    with pytest.raises(Conflict):
        await store.write(stored, msgspec.structs.replace(stored.ledger, campaign=a_campaign("chg-2")))


async def test_no_campaign_starts_while_evictions_are_paused(world: World) -> None:
    await pause(world.kube, OWN, "a release")
    with pytest.raises(NotDone, match="evictions are paused"):
        await start(world)


async def test_a_resumed_campaign_forgets_what_was_found_before(world: World) -> None:
    """Whoever resumes it has looked at the cluster; the next evaluation finds it again."""
    world.write_ledger(msgspec.json.encode(a_ledger(campaign=a_campaign())).decode())
    paused = await campaign_store.set_paused(world.kube, OWN, world.clock, paused=True)
    worse = continued(
        a_ledger(campaign=paused), an_evaluation(0.9, campaign=an_effect(0.6)), Limits(), world.clock.now()
    ).campaign
    assert worse is not None
    assert (paused.paused, worse.finding) == (True, "spread")
    world.write_ledger(msgspec.json.encode(a_ledger(campaign=worse)).decode())
    resumed = await campaign_store.set_paused(world.kube, OWN, world.clock, paused=False)
    assert (resumed.paused, resumed.finding, resumed.found) == (False, "", 0)


@pytest.mark.parametrize(
    ("campaign", "why"),
    [
        (None, "no campaign was started"),
        (a_campaign().ending("used its budget", 1.0), "campaign chg-1 has ended: used its budget"),
        (a_campaign(expires_at=1_000.0), "campaign chg-1 has expired"),
    ],
)
async def test_only_a_running_campaign_can_be_changed(world: World, campaign: Campaign | None, why: str) -> None:
    world.write_ledger(msgspec.json.encode(a_ledger(campaign=campaign)).decode())
    with pytest.raises(NotDone, match=f"NOT paused: {why}"):
        await campaign_store.set_paused(world.kube, OWN, world.clock, paused=True)
    with pytest.raises(NotDone, match=f"NOT resumed: {why}"):
        await campaign_store.set_paused(world.kube, OWN, world.clock, paused=False)
    with pytest.raises(NotDone, match=f"NOT aborted: {why}"):
        await campaign_store.abort(world.kube, OWN, world.clock, "")
