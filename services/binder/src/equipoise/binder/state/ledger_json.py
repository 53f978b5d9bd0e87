"""The ledger as its ConfigMap holds it: JSON for binders, one line per entry, and a summary for people.

`kubectl get configmap equipoise-ledger -o yaml` shows both as blocks of text. Only the JSON is read back.
"""

from datetime import UTC, datetime

import msgspec

from equipoise.binder.state.ledger import Ledger, LedgerEntry

_SUMMARY_ENTRIES = 20
"""The latest entries in the summary: it must stay small."""

_SUMMARY_DETAIL = 120
"""Characters of a reason there."""


def encode(ledger: Ledger) -> str:
    """JSON, one line per field and per entry. No line ends in a space, or YAML could not show it as a block."""
    document = msgspec.to_builtins(ledger)
    entries = document.pop("entries")
    lines = [f'  "{name}": {_json(value)}' for name, value in document.items()]
    listed = ",\n".join(f"    {_json(entry)}" for entry in entries)
    lines.append(f'  "entries": [\n{listed}\n  ]' if entries else '  "entries": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def decode(text: str) -> Ledger:
    """Raises msgspec.MsgspecError and UnicodeError."""
    return msgspec.json.decode(text, type=Ledger)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def summary(ledger: Ledger) -> str:
    """For people. It is written with the ledger and not updated afterwards, so it shows times and no ages."""
    if ledger.paused:
        lines = [f"evictions: paused ({ledger.pause_reason or 'no reason given'}), until `equipoise resume`"]
    else:
        lines = ["evictions: allowed"]
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
    """For people: `2026-11-21 20:44:27 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
