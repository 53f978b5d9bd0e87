"""Reads the eviction ledger, and prints pause, usage of limits, pending evictions and recent outcomes."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import LedgerStatus, ledger_status, state_text
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import LedgerStore
from equipoise.binder.state.ledger import LedgerClosed, LedgerEntry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.cli.terminal import print_result, table
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration import Kubernetes, Logging, read_document, read_sections
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

_SETTINGS: Mapping[ServiceName, type[Section]] = {"binder": BinderSettings}


def configured_limits(configuration: Path | None, environment: Mapping[str, str]) -> Limits:
    """The limits of the file, else the defaults. Raises ConfigurationError."""
    plain = {} if configuration is None else read_document(configuration.read_text())
    _, own = read_sections(plain, _SETTINGS, environment)
    binder = own["binder"]
    assert isinstance(binder, BinderSettings)
    return binder.limits


async def run_status(cluster: Kubernetes, limits: Limits, *, as_json: bool, limits_source: str) -> None:
    """Run the command. Raises KubeError."""
    configure_logging(Logging(level="error"), "status")
    clock = SystemClock()
    async with connect_kube(cluster, "status", clock) as kube:
        status = await read_status(kube, cluster.namespace, limits, clock)
    print_result(status, lambda status, to: show(status, to, limits_source), as_json=as_json)


async def read_status(kube: Kube, namespace: str, limits: Limits, clock: Clock) -> LedgerStatus:
    """Raises KubeError."""
    stored = await LedgerStore(kube, namespace).read()
    ledger = stored if isinstance(stored, LedgerClosed) else stored.ledger
    return ledger_status(ledger, limits, kube.server_time(clock.now()))


def show(status: LedgerStatus, to: Console, limits_source: str) -> None:
    """`limits_source`: where the limits come from."""
    style = "bold green" if status.evictions == "allowed" and not status.why else "bold red"
    to.print(Text.assemble("evictions: ", (status.evictions, style), f" ({status.why})" if status.why else ""))
    if status.evictions == "closed":
        return
    if status.halved_until is not None:
        to.print(Text(f"limits: halved until {clock_time(status.halved_until)} after {status.halved_by}"))
    else:
        to.print(Text("limits: in full"))
    to.print(Text(f"last 24 hours: {status.last_day} evictions, {status.dry_runs_last_day} dry runs"))
    to.print(Text(f"usage is relative to {limits_source}"))
    for part in _parts(status):
        to.print()
        to.print(part)


def _parts(status: LedgerStatus) -> Iterator[Table | Text]:
    usage = table("limit", "scope", "used>", "max>", "window>")
    for each in status.usage:
        usage.add_row(each.limit, each.scope, str(each.counted), each.max, each.window)
    yield usage
    if not status.pending:
        yield Text("no pending evictions")
    else:
        yield _entries("pending since", status.pending, settled=False)
    if status.last:
        yield _entries("finished", status.last, settled=True)


def _entries(title: str, entries: list[LedgerEntry], *, settled: bool) -> Table:
    made = table(title, "state", "pod", "node", "target", "workload", "detail")
    for entry in entries:
        at = (entry.settled_at if settled else None) or entry.reserved_at
        state = f"{state_text(entry)}{' (dry run)' if entry.dry_run and entry.outcome is None else ''}"
        pod = f"{entry.namespace}/{entry.pod}"
        made.add_row(clock_time(at), state, pod, entry.node, entry.target, str(entry.workload or ""), entry.detail)
    return made
