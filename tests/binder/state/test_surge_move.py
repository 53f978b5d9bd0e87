"""Moves without a gap in the ledger: they count, stay until they end, and survive other versions and wrong clocks."""

import json

import msgspec
from binder.ledgers import a_ledger, an_entry
from binder.replica_sets import a_move
from builders import NOW, a_workload, an_intent

from equipoise.binder.decisions.surge.plan import slot_refusal
from equipoise.binder.state.ledger import DAY, LedgerView
from equipoise.binder.state.ledger_json import decode, encode
from equipoise.binder.state.ledger_times import with_possible_times
from equipoise.binder.state.surge_move import DETACHED, READY, RESERVED, RESTORING, with_replacement, with_stage

OPEN = an_entry(intent_id=an_intent().id, settled_at=None, outcome=None, expires_at=NOW + 180)
MOVE = a_move()
LEDGER = a_ledger(OPEN).with_surge_move(MOVE)


def view(now: float) -> LedgerView:
    return LEDGER.view(now, dry_run=False, migration_timeout=600.0)


def test_a_move_counts_in_every_window_until_it_ends() -> None:
    """Its eviction may be requested at any time."""
    assert len(view(NOW + DAY).within(1.0)) == 1
    assert len(view(NOW + DAY).migrating()) == 1
    ended = LEDGER.without_surge_move(MOVE.intent.id)
    assert ended.view(NOW + DAY, dry_run=False, migration_timeout=600.0).within(1.0) == []


def test_the_entry_of_a_move_is_kept_until_it_ends() -> None:
    assert LEDGER.pruned(NOW + DAY) == LEDGER
    assert LEDGER.without_surge_move(MOVE.intent.id).pruned(NOW + DAY).entries == ()


def test_a_move_has_one_row_which_its_next_stage_replaces() -> None:
    moved = with_stage(MOVE, DETACHED, NOW + 1)
    assert LEDGER.with_surge_move(moved).surge_moves == (moved,)
    assert LEDGER.surge_move(MOVE.intent.id) == MOVE
    assert LEDGER.surge_move("other") is None


def test_a_stage_in_which_nothing_is_requested_does_not_begin_anew() -> None:
    """Replacements that come and go would otherwise postpone the end of the move."""
    placed = with_replacement(with_stage(a_move(stage=READY), DETACHED, NOW + 1), "web-2", "node-b", "too hot")
    assert placed.stage_at == NOW + 1
    ready = with_stage(placed, READY, NOW + 20)
    assert (ready.stage_at, ready.replacement, ready.replacement_node) == (NOW + 20, "web-2", "node-b")
    assert ready.misplaced == "too hot"


def test_nothing_is_waited_for_when_the_only_request_of_a_move_has_arrived() -> None:
    """A pod that was just detached is restored at once. After an eviction may have been requested, it is not."""
    detached = with_stage(a_move(stage=RESERVED), DETACHED, NOW + 1)
    assert detached.stage_at == 0
    assert with_stage(detached, RESTORING, NOW + 2).stage_at == NOW + 2
    assert with_stage(a_move(stage=READY), DETACHED, NOW + 1).stage_at == NOW + 1


def test_a_move_is_read_as_it_was_written_with_fields_of_a_later_version() -> None:
    document = json.loads(encode(LEDGER))
    document["surgeMoves"][0] |= {"later": 1, "stage": "parked"}
    again = json.loads(encode(decode(json.dumps(document))))
    assert again == document
    assert decode(encode(LEDGER)) == LEDGER


def test_a_version_without_moves_keeps_them() -> None:
    """They are a field of the document, which earlier versions keep although they drop old entries."""
    earlier = json.loads(encode(LEDGER))
    earlier["unknownToThisVersion"] = earlier.pop("surgeMoves")
    assert json.loads(encode(decode(json.dumps(earlier)).pruned(NOW + DAY)))["unknownToThisVersion"]


def test_times_of_a_move_in_the_future_become_the_present() -> None:
    wrong = a_ledger(OPEN).with_surge_move(a_move(stage_at=NOW + 1_000, ready_by=NOW + 1_300))
    (move,) = with_possible_times(wrong, NOW).surge_moves
    assert (move.stage_at, move.ready_by) == (NOW, NOW + 300)
    assert with_possible_times(LEDGER, NOW) == LEDGER
    assert msgspec.json.decode(msgspec.json.encode(MOVE), type=type(MOVE)) == MOVE


def test_moves_of_other_workloads_take_slots_too() -> None:
    """`surge.maxMoves` is for all workloads together."""
    other = a_workload("db")
    assert slot_refusal(LEDGER, other, 2) == ""
    assert slot_refusal(LEDGER, other, 1) == "1 of 1 pods are being moved without a gap (surge.maxMoves)"
    assert slot_refusal(LEDGER, MOVE.workload, 2) == f"a pod of {MOVE.workload} is being moved without a gap"
