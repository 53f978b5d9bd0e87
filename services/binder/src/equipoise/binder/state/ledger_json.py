"""The ledger as it stands in its ConfigMap: JSON for binders, a line for each entry, and a summary for people.

`kubectl get configmap equipoise-ledger -o yaml` shows both as blocks of text. Only the JSON is ever read back.
"""

from datetime import UTC, datetime

import msgspec

from equipoise.binder.state.ledger import Entry, Ledger

_LAST = 20
"""Entries in the summary, the latest ones: it must stay small."""

_DETAIL = 120
"""Characters of a reason there."""


def encode(ledger: Ledger) -> str:
    """JSON, a field in each line and an entry in each line. No line ends in a space, or YAML could not show it."""
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
    """What a person looks for first. It has no more of the present than the ledger itself: times stay times."""
    if ledger.paused:
        lines = [f"evictions: paused ({ledger.paused_why or 'no reason given'}), until `equipoise resume`"]
    else:
        lines = ["evictions: allowed"]
    lines.append(f"started: {clock_time(ledger.started_at)}, limits are halved for a while from then on")
    if ledger.disturbed_at is not None:
        lines.append(
            f"outage: {ledger.disturbance}, over at {clock_time(ledger.disturbed_at)}, halved as after a start"
        )
    if ledger.hours:
        evictions = sum(hour.evictions for hour in ledger.hours)
        dry_runs = sum(hour.dry_runs for hour in ledger.hours)
        since = clock_time(ledger.hours[0].begin)
        lines.append(f"carried out since {since}: {evictions} evictions, {dry_runs} dry runs")
    latest = sorted(ledger.entries, key=lambda entry: entry.settled_at or entry.reserved_at, reverse=True)
    lines += [_line(entry) for entry in latest[:_LAST]]
    if len(latest) > _LAST:
        lines.append(f"and {len(latest) - _LAST} more below")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(entry: Entry) -> str:
    outcome = "reserved" if entry.outcome is None else entry.outcome.value
    way = f"{entry.node} -> {entry.target}" if entry.target else entry.node
    detail = " ".join((entry.failing or entry.detail).split())
    told = f"{detail[:_DETAIL]}..." if len(detail) > _DETAIL else detail
    return (
        f"{clock_time(entry.settled_at or entry.reserved_at)}  {outcome}  {entry.namespace}/{entry.pod}  {way}  {told}"
    )


def clock_time(at: float) -> str:
    """As people read it: `2026-11-21 20:44:27 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
