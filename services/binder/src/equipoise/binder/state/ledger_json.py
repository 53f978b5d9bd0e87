"""The ledger as its ConfigMap holds it: JSON for binders, one line per entry, and a summary for people.

`kubectl get configmap equipoise-ledger -o yaml` shows both as blocks of text. Only the JSON is read back.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from equipoise.binder.state.campaign import Campaign
from equipoise.binder.state.ledger import FORMAT_VERSION, HourlyCount, Ledger
from equipoise.binder.state.ledger_entry import LedgerEntry, PastEviction
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.messages.eviction import Outcome

_SUMMARY_ENTRIES = 20
"""The number of latest entries in the summary, which must stay small."""

_SUMMARY_DETAIL = 120
"""The maximum number of characters of a reason in the summary."""


def encode(ledger: Ledger) -> str:
    """JSON, one line per field and per entry. No line ends in a space, or YAML could not show it as a block."""
    document = _with_unknown(msgspec.to_builtins(ledger))
    if document["campaign"] is not None:
        document["campaign"] = _with_unknown(document["campaign"])
    document["hours"] = [_with_unknown(hour) for hour in document["hours"]]
    rows = {name: document.pop(name) for name in ("past", "entries", "surgeMoves")}
    lines = [f'  "{name}": {_json(value)}' for name, value in document.items()]
    lines += [_listed(name, entries) for name, entries in rows.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(name: str, rows: Sequence[dict[str, Any]]) -> str:
    listed = ",\n".join(f"    {_json(_with_unknown(row))}" for row in rows)
    return f'  "{name}": [\n{listed}\n  ]' if rows else f'  "{name}": []'


class NewerFormat(Exception):
    """A later version of Equipoise has written the ledger, in a format that this one must not use."""


def decode(text: str) -> Ledger:
    """The ledger, with the fields that this version does not know: of the document, its campaign, and each entry, hour
    and move.

    Raises msgspec.MsgspecError, UnicodeError, RecursionError and NewerFormat.
    """
    document = msgspec.json.decode(text)
    if not isinstance(document, dict):
        return msgspec.convert(document, Ledger)
    version = document.get("formatVersion", FORMAT_VERSION)
    if isinstance(version, int | float) and version > FORMAT_VERSION:
        raise NewerFormat(f"it has format {version}, this version reads formats up to {FORMAT_VERSION}")
    if isinstance(entries := document.get("entries"), list):
        document["entries"] = [_entry(entry) if isinstance(entry, dict) else entry for entry in entries]
    if isinstance(campaign := document.get("campaign"), dict):
        document["campaign"] = _with_known(campaign, Campaign.__struct_encode_fields__)
    for name, kind in (("hours", HourlyCount), ("past", PastEviction), ("surgeMoves", SurgeMove)):
        if isinstance(rows := document.get(name), list):
            known = kind.__struct_encode_fields__
            document[name] = [_with_known(row, known) if isinstance(row, dict) else row for row in rows]
    return msgspec.convert(_with_known(document, Ledger.__struct_encode_fields__), Ledger)


class KeptMoves(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read of the moves without a gap in a ledger that cannot be read as a whole."""

    moves: tuple[SurgeMove, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()
    """Their entries, as far as they can be read."""

    lost: bool = False
    """Whether the ledger may have further moves."""


def kept_moves(text: str) -> KeptMoves:
    """The moves of a ledger that was edited, cut, or written by a later version. Raises nothing.

    Each has a line of its own, which is read even if the rest of the document is not valid.
    """
    rows, lost = _rows(text)
    moves: dict[str, SurgeMove] = {}
    entries: dict[str, LedgerEntry] = {}
    for row in rows:
        is_move = "intent" in row
        kind: type[SurgeMove | LedgerEntry] = SurgeMove if is_move else LedgerEntry
        try:
            value = msgspec.convert(_with_known(row, kind.__struct_encode_fields__), kind)
        except msgspec.ValidationError:
            lost = lost or is_move
            continue
        if isinstance(value, SurgeMove):
            moves[value.intent.id] = value
        else:
            entries[value.intent_id] = value
    kept = tuple(entries[intent] for intent in moves if intent in entries)
    return KeptMoves(moves=tuple(moves.values()), entries=kept, lost=lost)


def _rows(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The entries and moves of a document, and whether moves may be missing."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return [row for line in text.splitlines() if isinstance(row := _line_of(line), dict)], True
    if not isinstance(document, dict):
        return [], True
    lists = [document.get(name, []) for name in ("entries", "surgeMoves")]
    rows = [row for each in lists if isinstance(each, list) for row in each]
    known = [row for row in rows if isinstance(row, dict)]
    return known, not isinstance(lists[1], list) or len(known) < len(rows)


def _line_of(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip().rstrip(","))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


_OUTCOMES = frozenset(Outcome)


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    outcome = entry.get("outcome")
    known = _with_known(entry, LedgerEntry.__struct_encode_fields__)
    if not isinstance(outcome, str) or outcome in _OUTCOMES:
        return known
    # Without an outcome the entry would be a reservation that another binder carries out.
    return known | {"outcome": Outcome.FAILED.value, "unknownFields": known["unknownFields"] | {"outcome": outcome}}


def _with_known(document: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The document with only the fields of these names. Its other fields are in `unknownFields`."""
    known = {name: value for name, value in document.items() if name in names and name != "unknownFields"}
    return known | {"unknownFields": {name: value for name, value in document.items() if name not in names}}


def _with_unknown(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the fields of `unknownFields` at their old place."""
    unknown: dict[str, Any] = document.pop("unknownFields", {})
    return document | unknown


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def summary(ledger: Ledger) -> str:
    """A summary for people. It is written with the ledger and not updated afterwards, so it shows times and no ages."""
    if ledger.paused:
        lines = [f"evictions: paused ({ledger.pause_reason or 'no reason given'}), until `equipoise resume`"]
    else:
        lines = ["evictions: allowed"]
    if (campaign := ledger.campaign) is not None:
        state = (
            f"ended at {clock_time(campaign.ended_at)}: {campaign.ended}"
            if campaign.ended_at
            else ("paused" if campaign.paused else f"until {clock_time(campaign.expires_at)}")
        )
        lines.append(f"campaign: {campaign.name}, {campaign.used} of {campaign.budget} moves, {state}")
    lines.append(f"started: {clock_time(ledger.started_at)}, limits are halved for the grace period from then on")
    if ledger.outage_ended_at is not None:
        ended = clock_time(ledger.outage_ended_at)
        lines.append(f"outage: {ledger.outage}, ended at {ended}, limits are halved as after a start")
    if ledger.hours:
        evictions = sum(hour.evictions for hour in ledger.hours)
        dry_runs = sum(hour.dry_runs for hour in ledger.hours)
        since = clock_time(ledger.hours[0].begin)
        lines.append(f"carried out since {since}: {evictions} evictions, {dry_runs} dry runs")
    latest = sorted(ledger.entries, key=lambda entry: entry.settled_at or entry.reserved_at, reverse=True)
    lines += [_line(entry) for entry in latest[:_SUMMARY_ENTRIES]]
    if len(latest) > _SUMMARY_ENTRIES:
        lines.append(f"and {len(latest) - _SUMMARY_ENTRIES} more below")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(entry: LedgerEntry) -> str:
    outcome = "reserved" if entry.outcome is None else entry.outcome.value
    nodes = f"{entry.node} -> {entry.target}" if entry.target else entry.node
    detail = " ".join((entry.failure or entry.detail).split())
    short = f"{detail[:_SUMMARY_DETAIL]}..." if len(detail) > _SUMMARY_DETAIL else detail
    at = clock_time(entry.settled_at or entry.reserved_at)
    return f"{at}  {outcome}  {entry.namespace}/{entry.pod}  {nodes}  {short}"


def clock_time(at: float) -> str:
    """A time for people: `2026-11-21 20:44:27 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
