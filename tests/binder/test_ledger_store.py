"""The ledger in its ConfigMap, and the Event; small things that only the API server would find wrong."""

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import OWN, World
from builders import an_intent

from equipoise.binder.decisions.event import eviction_event
from equipoise.binder.shell.ledger_store import (
    NAME,
    RESERVE_BYTES,
    LedgerClosed,
    LedgerFull,
    LedgerStore,
    StoredLedger,
    create_ledger,
    pause,
    resume,
)
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Conflict


async def test_setup_never_overwrites(world: World) -> None:
    """A ledger that is there stays as it is."""
    world.write_ledger(msgspec.json.encode(a_ledger(an_entry())).decode())
    assert await create_ledger(world.kube, OWN, world.clock) is False
    assert world.ledger == a_ledger(an_entry())


async def test_times_are_the_api_servers(world: World) -> None:
    """A process whose clock is wrong writes the API server's time all the same."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    world.kube.skew = 100.0
    await create_ledger(world.kube, OWN, world.clock)
    assert world.ledger.created_at == world.clock.now() + 100


async def test_writing_proves_to_have_read(world: World) -> None:
    """Whoever read before another wrote gets a conflict."""
    store = LedgerStore(world.kube, OWN)
    held = await store.read()
    assert isinstance(held, StoredLedger)
    await store.write(held, held.ledger.pause("first"))
    with pytest.raises(Conflict):
        await store.write(held, held.ledger)
    assert world.ledger.pause_reason == "first"


async def test_pause_of_nothing(world: World) -> None:
    """Pausing without a ledger makes none: nothing can move anyway."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    assert "missing" in await pause(world.kube, OWN, "")
    assert world.kube.stored(CONFIG_MAPS) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"createdAt": "x"}', '{"createdAt": 1, "startedAt": 1, "entries": [{}]}'])
async def test_resume_mends_a_broken_ledger(world: World, text: str) -> None:
    """What cannot be read is closed until a person resumes; then it is new."""
    world.write_ledger(text)
    store = LedgerStore(world.kube, OWN)
    assert isinstance(await store.read(), LedgerClosed)
    assert "forgotten" in await resume(world.kube, OWN, world.clock)
    assert isinstance(await store.read(), StoredLedger)


async def test_resume_keeps_what_is_known(world: World) -> None:
    """Resuming forgets no eviction, and begins the start-up grace anew."""
    world.write_ledger(msgspec.json.encode(a_ledger(an_entry(), paused=True)).decode())
    await resume(world.kube, OWN, world.clock)
    assert world.ledger.entries == (an_entry(),)
    assert not world.ledger.paused
    assert world.ledger.started_at == world.clock.now()


async def test_a_ledger_never_outgrows_its_config_map(world: World) -> None:
    """Answers are forgotten first; when evictions alone fill it, nothing new is reserved but what is there settles."""
    store = LedgerStore(world.kube, OWN)
    held = await store.read()
    assert isinstance(held, StoredLedger)
    answers = [an_entry(f"answer-{number}", counted=False, detail="x" * 500) for number in range(1_500)]
    await store.write(held, a_ledger(an_entry(), *answers), reserving=True)
    assert world.ledger.entries == (an_entry(),)
    held = await store.read()
    assert isinstance(held, StoredLedger)
    full = a_ledger(*(an_entry(f"pod-{number}", detail="x" * 500) for number in range(1_200)))
    with pytest.raises(LedgerFull):
        await store.write(held, full, reserving=True)
    await store.write(held, full)
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    assert RESERVE_BYTES < len(config_map.data["ledger"]) < 2**20


def test_event_as_the_api_server_wants_it() -> None:
    """Six digits of a second even at a whole one, a note of at most 1,024 bytes, and the same name each time."""
    intent = an_intent("p" * 253, reason="ü" * 2_000)
    event = eviction_event(intent, 1_800_000_000.0, "binder" * 40)
    assert b'"eventTime":"2027-01-15T08:00:00.000001Z"' in msgspec.json.encode(event)
    assert len(event.note.encode()) <= 1_024
    assert len(event.metadata.name) <= 253
    assert len(event.reporting_instance) <= 128
    assert eviction_event(intent, 1_800_000_009.0, "other").metadata.name == event.metadata.name
    assert eviction_event(an_intent("p" * 253, id="x"), 0.0, "b").metadata.name != event.metadata.name
