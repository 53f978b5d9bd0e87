"""The ConfigMap of the ledger: setup, pause, resume, size."""

import json
from collections.abc import Callable

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.replica_sets import a_move
from binder.worlds import OWN, World

from equipoise.binder.shell.ledger_store import (
    NAME,
    RESERVE_BYTES,
    LedgerClosed,
    LedgerFull,
    LedgerStore,
    NotDone,
    NotInstalled,
    StoredLedger,
    create_ledger,
    pause,
    resume,
)
from equipoise.binder.state.ledger_json import encode
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, NAMESPACES, Conflict


async def test_setup_keeps_an_existing_ledger(world: World) -> None:
    world.write_ledger(msgspec.json.encode(a_ledger(an_entry())).decode())
    assert await create_ledger(world.kube, OWN, world.clock) is False
    assert world.ledger == a_ledger(an_entry())


async def test_a_new_ledger_has_the_time_of_the_api_server(world: World) -> None:
    """Also when the clock of the process is wrong."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    world.kube.skew = 100.0
    await create_ledger(world.kube, OWN, world.clock)
    assert world.ledger.created_at == world.clock.now() + 100


async def test_a_write_after_another_write_conflicts(world: World) -> None:
    store = LedgerStore(world.kube, OWN)
    stored = await store.read()
    assert isinstance(stored, StoredLedger)
    await store.write(stored, stored.ledger.pause("first"))
    with pytest.raises(Conflict):
        await store.write(stored, stored.ledger)
    assert world.ledger.pause_reason == "first"


async def test_pause_without_a_ledger_creates_none(world: World) -> None:
    """Nothing is evicted without a ledger, but setup or `resume` may create one: that is no pause."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    with pytest.raises(NotDone, match=r"NOT paused.*missing.*binders evict nothing without a ledger"):
        await pause(world.kube, OWN, "")
    assert world.kube.stored(CONFIG_MAPS) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"createdAt": "x"}', '{"createdAt": 1, "startedAt": 1, "entries": [{}]}'])
async def test_resume_replaces_an_invalid_ledger_only_on_request(world: World, text: str) -> None:
    """It may contain evictions that still count. Until then it is closed."""
    world.write_ledger(text)
    store = LedgerStore(world.kube, OWN)
    closed = await store.read()
    assert isinstance(closed, LedgerClosed)
    assert "--forget" in closed.why
    with pytest.raises(NotDone, match="--forget"):
        await resume(world.kube, OWN, world.clock)
    assert world.kube.stored(CONFIG_MAPS)[0].data["ledger"] == text
    assert "forgotten" in await resume(world.kube, OWN, world.clock, forget=True)
    assert isinstance(await store.read(), StoredLedger)


OPEN = a_ledger(an_entry(intent_id=a_move().intent.id, settled_at=None, outcome=None)).with_surge_move(a_move())


@pytest.mark.parametrize(
    ("break_it", "lost"),
    [
        (lambda text: text.replace('"createdAt":', '"createdAt": "x", "y":'), False),
        (lambda text: text.replace('"formatVersion": 1', '"formatVersion": 2'), False),
        (lambda text: text.replace('"epoch": ', '"epoch": <<<'), True),
        (lambda text: text.rstrip().removesuffix("}"), True),
        (lambda text: text.replace('"startedAt"', "startedAt"), True),
    ],
    ids=["a wrong type", "a later version", "a typing error", "cut", "no JSON"],
)
async def test_resume_forgets_no_move_without_a_gap(world: World, break_it: Callable[[str], str], lost: bool) -> None:
    """Nobody else would end the pod that it has detached."""
    world.write_ledger(break_it(encode(OPEN)))
    done = await resume(world.kube, OWN, world.clock, forget=True)
    assert "the moves without a gap of shop/web-1 are kept" in done
    assert ("equipoise doctor detached" in done) == lost
    assert (world.ledger.surge_moves, world.ledger.entries) == (OPEN.surge_moves, OPEN.entries)


async def test_resume_tells_of_moves_without_a_gap_that_it_cannot_read(world: World) -> None:
    """Whatever the ledger has in their place. Also if it is missing: it may have had some."""
    intact = json.loads(encode(OPEN))
    for moves in ([intact["surgeMoves"][0] | {"replicas": -1}], {"web-1": {}}, ["web-1"]):
        world.write_ledger(json.dumps(intact | {"surgeMoves": moves, "createdAt": "x"}))
        assert "equipoise doctor detached" in await resume(world.kube, OWN, world.clock, forget=True)
        assert world.ledger.surge_moves == ()
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    assert "equipoise doctor detached" in await resume(world.kube, OWN, world.clock)


async def test_a_ledger_of_a_later_version_is_closed(world: World) -> None:
    """Nothing is evicted and nothing is written, neither by binders nor by pause, which must not report success."""
    text = '{"formatVersion": 2, "createdAt": 1, "startedAt": 1, "entries": []}'
    world.write_ledger(text)
    assert await world.outcome_of("web-1") == "paused"
    assert "format 2" in world.outcomes[0].detail
    with pytest.raises(NotDone, match=r"NOT paused.*format 2"):
        await pause(world.kube, OWN, "")
    with pytest.raises(NotDone, match=r"NOT resumed.*format 2"):
        await resume(world.kube, OWN, world.clock)
    assert world.kube.stored(CONFIG_MAPS)[0].data["ledger"] == text
    assert world.kube.evictions == []


async def test_a_ledger_that_may_not_be_read_is_not_paused(world: World) -> None:
    """Binders may have it, and evict. Nothing is claimed about them."""
    world.kube.refuse("get", resource="configmaps")
    with pytest.raises(NotDone, match=r"NOT paused: .* may not be read: [^;]*$"):
        await pause(world.kube, OWN, "")
    world.kube.clear_faults()
    assert not world.ledger.paused


async def test_a_missing_namespace_is_reported_as_such(world: World) -> None:
    """By pause and resume. If it may not be read, nothing is claimed about it."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    world.kube.refuse("get", resource="namespaces")
    with pytest.raises(NotDone, match="Whether namespace equipoise-system exists is unknown"):
        await pause(world.kube, OWN, "")
    world.kube.clear_faults()
    world.kube.remove(NAMESPACES, OWN)
    for command in (pause(world.kube, OWN, ""), resume(world.kube, OWN, world.clock)):
        with pytest.raises(NotInstalled, match="namespace equipoise-system does not exist"):
            await command


async def test_a_binder_keeps_what_a_later_version_has_added(world: World) -> None:
    """Fields of the document and of entries, and an outcome that it does not know: that entry counts as settled."""
    document = msgspec.to_builtins(a_ledger(an_entry("web-9", workload=None))) | {"quota": {"left": 3}}
    document["entries"] = [document["entries"][0] | {"zone": "a", "outcome": "deferred"}]
    world.write_ledger(msgspec.json.encode(document).decode())
    await world.start(world.binder())
    await world.propose("web-9", id="intent-web-9")
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED, Outcome.EVICTED]
    written = msgspec.json.decode(world.kube.stored(CONFIG_MAPS)[0].data["ledger"])
    assert written["quota"] == {"left": 3}
    assert (written["entries"][0]["zone"], written["entries"][0]["outcome"]) == ("a", "deferred")
    assert written["formatVersion"] == 1
    assert len(world.evicted) == 1


async def test_resume_keeps_the_entries(world: World) -> None:
    """It forgets no eviction, and starts the grace period again."""
    world.write_ledger(msgspec.json.encode(a_ledger(an_entry(), paused=True)).decode())
    await resume(world.kube, OWN, world.clock)
    assert world.ledger.entries == (an_entry(),)
    assert not world.ledger.paused
    assert world.ledger.started_at == world.clock.now()


async def test_a_ledger_never_exceeds_its_config_map(world: World) -> None:
    """Refusals are dropped first. When evictions alone fill it, nothing is reserved, but reservations settle."""
    store = LedgerStore(world.kube, OWN)
    stored = await store.read()
    assert isinstance(stored, StoredLedger)
    refusals = [an_entry(f"refusal-{number}", counted=False, detail="x" * 500) for number in range(1_500)]
    await store.write(stored, a_ledger(an_entry(), *refusals), reserving=True)
    assert world.ledger.entries == (an_entry(),)
    stored = await store.read()
    assert isinstance(stored, StoredLedger)
    full = a_ledger(*(an_entry(f"pod-{number}", detail="x" * 500) for number in range(1_200)))
    with pytest.raises(LedgerFull):
        await store.write(stored, full, reserving=True)
    await store.write(stored, full)
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    assert RESERVE_BYTES < len(config_map.data["ledger"]) < 2**20
