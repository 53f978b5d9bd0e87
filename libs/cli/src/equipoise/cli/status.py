"""`equipoise status`: may anything be evicted, what is under way, how much of each limit is used. Needs no NATS."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import LedgerStatus, ledger_status, state_text
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import LedgerStore
from equipoise.binder.state.ledger import LedgerClosed, LedgerEntry
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


def limits_of(configuration: Path | None, environment: Mapping[str, str]) -> Limits:
    """The limits that uses are measured by: those of the file, else the defaults. Raises ConfigurationError."""
    plain = {} if configuration is None else read_document(configuration.read_text())
    _, own = read_sections(plain, _SECTIONS, environment)
    binder = own["binder"]
    assert isinstance(binder, BinderSettings)
    return binder.limits


async def run_status(cluster: Kubernetes, limits: Limits, *, as_json: bool, measured_by: str) -> None:
    """The command. `measured_by`: whose limits these are. Raises KubeError when the API server has no answer."""
    configure_logging(Logging(level="error"), "status")
    clock = SystemClock()
    async with connect_kube(cluster, "status", clock) as kube:
        seen = await look(kube, cluster.namespace, limits, clock)
    if as_json:
        print(msgspec.json.encode(seen).decode())
    else:
        show(seen, Console(highlight=False, width=None if sys.stdout.isatty() else _ON_PIPES), measured_by)


async def look(kube: Kube, namespace: str, limits: Limits, clock: Clock) -> LedgerStatus:
    """Read the ledger. Raises KubeError."""
    stored = await LedgerStore(kube, namespace).read()
    ledger = stored if isinstance(stored, LedgerClosed) else stored.ledger
    return ledger_status(ledger, limits, kube.server_time(clock.now()))


def show(seen: LedgerStatus, console: Console, measured_by: str) -> None:
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
    console.print(Text(f"usage below is measured by {measured_by}"))
    for part in _parts(seen):
        console.print()
        console.print(part)


def _parts(seen: LedgerStatus) -> Iterator[Table | Text]:
    usage = _table("limit", "scope", "counted>", "max>", "window>")
    for each in seen.usage:
        usage.add_row(each.limit, each.scope, str(each.counted), each.max, each.window)
    yield usage
    if not seen.pending:
        yield Text("nothing is pending")
    else:
        yield _entries("pending since", seen.pending, settled=False)
    if seen.last:
        yield _entries("settled", seen.last, settled=True)


def _entries(title: str, entries: list[LedgerEntry], *, settled: bool) -> Table:
    table = _table(title, "what", "pod", "node", "target", "workload", "why")
    for entry in entries:
        at = (entry.settled_at if settled else None) or entry.reserved_at
        what = f"{state_text(entry)}{' (dry run)' if entry.dry_run and entry.outcome is None else ''}"
        pod = f"{entry.namespace}/{entry.pod}"
        table.add_row(clock_time(at), what, pod, entry.node, entry.target, str(entry.workload or ""), entry.detail)
    return table


def _table(*columns: str) -> Table:
    """Columns that end in `>` are numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left", no_wrap=True)
    return table
