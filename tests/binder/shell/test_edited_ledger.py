"""A ledger that somebody has edited: it is refused with the reason, and never replaced."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, OWN, World
from builders import NOW

from equipoise.binder.decisions.limits import EvictionsPerWorkload
from equipoise.binder.shell.ledger_store import KEY, NotDone, create_ledger, pause, resume
from equipoise.binder.state.ledger import HOUR, HourlyCount
from equipoise.binder.state.ledger_json import encode
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import CONFIG_MAPS

BEGIN = NOW - NOW % HOUR
Document = dict[str, Any]


def a_document() -> Document:
    """With an eviction that has just been settled."""
    ledger = a_ledger(an_entry("web-9"), hours=(HourlyCount(begin=BEGIN, evictions=1),), retention=2 * HOUR)
    decoded: Document = json.loads(encode(ledger))
    return decoded


def with_field(name: str, value: Any) -> str:
    return json.dumps(a_document() | {name: value})


def with_entry_field(name: str, value: Any) -> str:
    document = a_document()
    document["entries"][0][name] = value
    return json.dumps(document)


INVALID = {
    "cut off": json.dumps(a_document())[:-20],
    "empty": "",
    "null": "null",
    "a list": "[]",
    "a string": '"{}"',
    "a trailing comma": json.dumps(a_document())[:-1] + ",}",
    "a comment": "# paused by me\n" + json.dumps(a_document()),
    "not a number": with_field("createdAt", 1).replace('"createdAt": 1', '"createdAt": NaN'),
    "too large a number": with_field("createdAt", 1).replace('"createdAt": 1', '"createdAt": 1e999'),
    "a date": with_field("startedAt", "2027-01-15T08:00:00Z"),
    "milliseconds": with_field("startedAt", NOW * 1_000),
    "a negative time": with_field("startedAt", -1),
    "paused in words": with_field("paused", "yes"),
    "no entries": with_field("entries", None),
    "entries by name": with_field("entries", {"web-9": {}}),
    "a name as entry": with_field("entries", ["web-9"]),
    "an empty entry": with_field("entries", [{}]),
    "an hour in milliseconds": with_field("hours", [{"begin": BEGIN * 1_000, "evictions": 1}]),
    "a negative count": with_field("hours", [{"begin": BEGIN, "evictions": -1}]),
    "a count of 400 digits": with_field("hours", [{"begin": BEGIN, "evictions": 10**400}]),
    "replicas of 400 digits": with_entry_field("replicas", 10**400),
    "an entry in milliseconds": with_entry_field("settledAt", NOW * 1_000),
    "an entry with a word as time": with_entry_field("expiresAt", "soon"),
    "an outcome that is no word": with_entry_field("outcome", 7),
    "a workload as text": with_entry_field("workload", "deployment/web"),
    "nested too deeply": with_field("note", 0).replace('"note": 0', '"note": ' + "[" * 100_000 + "]" * 100_000),
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
async def test_an_invalid_ledger_stops_evictions_and_is_kept(world: World, text: str) -> None:
    """Neither a binder, setup, pause nor resume replaces it. Outcome and /readyz name the ConfigMap and the way out."""
    world.write_ledger(text)
    await world.start(world.binder())
    await world.propose("web-1")
    await create_ledger(world.kube, OWN, world.clock)
    for command in (pause(world.kube, OWN, ""), resume(world.kube, OWN, world.clock)):
        with pytest.raises(NotDone, match="is invalid"):
            await command
    await world.clock.advance(30)
    assert [each.outcome for each in world.outcomes] == [Outcome.PAUSED]
    for why in (world.outcomes[0].detail, *world.health.problems):
        assert "equipoise-system/equipoise-ledger" in why
        assert "--forget" in why
    assert world.kube.evictions == []
    assert world.kube.stored(CONFIG_MAPS)[0].data[KEY] == text


@pytest.mark.parametrize("version", [2, 2.0, 1.5, 10**30])
async def test_an_edited_format_version_is_refused(world: World, version: float) -> None:
    text = with_field("formatVersion", version)
    world.write_ledger(text)
    assert await world.outcome_of("web-1") == "paused"
    assert "later version" in world.outcomes[0].detail
    assert world.kube.stored(CONFIG_MAPS)[0].data[KEY] == text


def without_entries(document: Document) -> None:
    document["entries"] = []


def long_ago(document: Document) -> None:
    document["entries"][0] |= {"settledAt": NOW - 2 * HOUR, "reservedAt": NOW - 2 * HOUR}


def not_counted(document: Document) -> None:
    document["entries"][0]["counted"] = False


def not_evicted(document: Document) -> None:
    document["entries"][0]["outcome"] = "expired"


@pytest.mark.parametrize("edit", [without_entries, long_ago, not_counted, not_evicted])
async def test_an_eviction_that_was_removed_by_hand_is_missed(world: World, edit: Callable[[Document], None]) -> None:
    """The hour counts it. Nothing is evicted until a person resumes, or the eviction would no longer count."""
    document = a_document()
    edit(document)
    text = json.dumps(document)
    world.write_ledger(text)
    await world.start(world.binder())
    await world.propose("web-1", id="first")
    assert "it has 0 of the 1 entries with outcome evicted" in world.outcomes[0].detail
    assert "equipoise resume" in world.health.problems[0]
    assert world.kube.stored(CONFIG_MAPS)[0].data[KEY] == text
    await resume(world.kube, OWN, world.clock)
    await world.propose("web-1", id="second", decided_at=world.clock.now() + 1)
    assert [each.outcome for each in world.outcomes] == [Outcome.PAUSED, Outcome.EVICTED]


async def test_an_outcome_of_a_later_version_may_be_an_eviction(world: World) -> None:
    """It counts, and is not missed."""
    document = a_document()
    document["entries"][0]["outcome"] = "migrated"
    world.write_ledger(json.dumps(document))
    assert await world.outcome_of("web-1") == "evicted"


async def test_removed_evictions_are_not_missed_for_ever(world: World) -> None:
    document = a_document()
    without_entries(document)
    world.write_ledger(json.dumps(document))
    await world.start(world.binder())
    await world.clock.advance(2 * HOUR)
    await world.publish_cluster(2)
    await world.propose("web-1")
    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED]


async def test_an_entry_that_was_added_by_hand_counts(world: World) -> None:
    """Somebody records an eviction that was carried out otherwise."""
    document = a_document()
    document["hours"] = []
    world.write_ledger(json.dumps(document))
    limits = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))
    assert await world.outcome_of("web-1", limits=limits) == "rejected_limit"


async def test_a_binder_never_closes_its_own_ledger(world: World) -> None:
    """Over five hours of evictions, with everything that they prune, no entry is missed."""
    await world.start(world.binder(limits=msgspec.structs.replace(GENEROUS)))
    for number in range(20):
        await world.publish_cluster(number + 2)
        await world.propose(f"{'web' if number % 2 else 'db'}-{number // 2 + 1}")
        await world.clock.advance(900)
    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED] * 20
    assert world.health.problems == []
