"""`equipoise status`: may anything be evicted, what is under way, how much of each limit is used. Needs no NATS."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import Overview, overview, state_of
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import LedgerStore
from equipoise.binder.state.ledger import Closed, Entry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration import Kubernetes, Logging, read_document, read_sections
from equipoise.runtime.kubernetes.client import Kube, connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

_ON_PIPES = 400
"""Columns where nobody looks: no line is folded."""

_SECTIONS: Mapping[ServiceName, type[Section]] = {"binder": BinderSettings}


def configured_limits(configuration: Path | None, environment: Mapping[str, str]) -> Limits:
    """The limits that uses are measured by: those of the file, else the defaults. Raises ConfigurationError."""
    plain = {} if configuration is None else read_document(configuration.read_text())
    _, own = read_sections(plain, _SECTIONS, environment)
    binder = own["binder"]
    assert isinstance(binder, BinderSettings)
    return binder.limits


async def run_status(cluster: Kubernetes, limits: Limits, *, as_json: bool, limits_source: str) -> None:
    """The command. `limits_source`: whose limits these are. Raises KubeError when the API server has no answer."""
    configure_logging(Logging(level="error"), "status")
    clock = SystemClock()
    async with connect_kube(cluster, "status", clock) as kube:
        seen = await look(kube, cluster.namespace, limits, clock)
    if as_json:
        print(msgspec.json.encode(seen).decode())
    else:
        show(seen, Console(highlight=False, width=None if sys.stdout.isatty() else _ON_PIPES), limits_source)


async def look(kube: Kube, namespace: str, limits: Limits, clock: Clock) -> Overview:
    """Read the ledger. Raises KubeError."""
    held = await LedgerStore(kube, namespace).read()
    ledger = held if isinstance(held, Closed) else held.ledger
    return overview(ledger, limits, kube.server_time(clock.now()))


def show(seen: Overview, console: Console, limits_source: str) -> None:
    """Print it as people read it."""
    style = "bold green" if seen.evictions == "allowed" and not seen.why else "bold red"
    console.print(Text.assemble("evictions: ", (seen.evictions, style), f" ({seen.why})" if seen.why else ""))
    if seen.evictions == "closed":
        return
    if seen.halved_until is not None:
        console.print(Text(f"limits: half of each until {clock_time(seen.halved_until)}, after {seen.halved_by}"))
    else:
        console.print(Text("limits: in full"))
    console.print(Text(f"last 24 hours: {seen.last_day} evictions, {seen.dry_runs_last_day} dry runs"))
    console.print(Text(f"uses below are measured by {limits_source}"))
    for part in _parts(seen):
        console.print()
        console.print(part)


def _parts(seen: Overview) -> Iterator[Table | Text]:
    uses = _table("limit", "of", "counted>", "most>", "window>")
    for use in seen.uses:
        uses.add_row(use.limit, use.of, str(use.counted), use.most, use.window)
    yield uses
    if not seen.under_way:
        yield Text("nothing is under way")
    else:
        yield _entries("under way since", seen.under_way, settled=False)
    if seen.last:
        yield _entries("settled", seen.last, settled=True)


def _entries(title: str, entries: list[Entry], *, settled: bool) -> Table:
    table = _table(title, "what", "pod", "node", "target", "workload", "why")
    for entry in entries:
        at = (entry.settled_at if settled else None) or entry.reserved_at
        what = f"{state_of(entry)}{' (dry run)' if entry.dry_run and entry.outcome is None else ''}"
        pod = f"{entry.namespace}/{entry.pod}"
        table.add_row(clock_time(at), what, pod, entry.node, entry.target, str(entry.workload or ""), entry.detail)
    return table


def _table(*columns: str) -> Table:
    """Columns that end in `>` are numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left", no_wrap=True)
    return table
