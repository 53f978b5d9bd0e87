"""Reads the ledger and the heartbeats of binders, and prints pause, usage of limits, pending and recent evictions."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Literal

import click
from msgspec import UNSET, UnsetType, structs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.status import LedgerStatus, ledger_status, maximum_text, state_text
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import NotInstalled, read_installed
from equipoise.binder.state.ledger import LedgerClosed, LedgerEntry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.cli.bus_access import reached
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.hints.state import HintsState, read_hints_state
from equipoise.cli.kubeconfig import ClusterName, cluster_name
from equipoise.cli.options import BusOptions, ClusterOptions, Output
from equipoise.cli.reclaimed.state import ReclaimerState, has_reclaimer, read_reclaimer_state, reclaimer_lines
from equipoise.cli.status.binder_mode import BinderMode, read_binder_mode
from equipoise.cli.terminal import count, print_result, table
from equipoise.collector.state.pod_times import FINISHED
from equipoise.contracts.configuration.section_names import SectionName
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.runtime.configuration import Logging, read_document, read_sections
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.bounded_files import read_bounded_text
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

_SETTINGS: Mapping[SectionName, type[Section]] = {"binder": BinderSettings}


class ShownStatus(LedgerStatus, frozen=True, kw_only=True, rename="camel"):
    """What the ledger, the binders and the configuration state, as far as they could be read."""

    cluster: ClusterName
    mode: Literal["real", "dry run", "unknown"] | None = None
    """What binders do with intents; None if it does not matter, because the ledger allows no eviction."""

    mode_source: str = ""
    """Where that is from, or why it is unknown."""

    hints: HintsState | None = None
    """None: not read, because the ledger cannot be read."""

    reclaimer: ReclaimerState | UnsetType = UNSET
    """Unset: the cluster has no reclaimer."""


def configured(configuration: Path | None, environment: Mapping[str, str]) -> BinderSettings:
    """The section `binder` of the file, else the defaults. Raises ConfigurationError."""
    plain = {} if configuration is None else read_document(read_bounded_text(configuration))
    _, own = read_sections(plain, _SETTINGS, environment)
    binder = own["binder"]
    assert isinstance(binder, BinderSettings)
    return binder


async def run_status(
    options: ClusterOptions,
    binder: BinderSettings,
    bus: BusOptions,
    environment: Mapping[str, str],
    *,
    output: Output,
    watch: float | None = None,
) -> None:
    """Run the command; `watch`: seconds until it is repeated, without end.

    Raises InvalidInput, and CommandFailed if it is unknown whether pods may be evicted.
    """
    configure_logging(Logging(level="error"), "status")
    file = options.configuration
    source = f"the limits of {file}" if file else "the default limits (use --config FILE for others)"
    while True:
        status = await _read(options, binder, bus, environment)
        if watch is not None and output in ("text", "wide"):
            click.clear()
        show_status = partial(show, limits_source=source, wide=output == "wide")
        print_result(status, show_status, output=output, watched=watch is not None)
        if watch is None:
            break
        await asyncio.sleep(watch)
    if status.evictions == "unknown":
        raise CommandFailed("it is unknown whether pods may be evicted")


async def _read(
    options: ClusterOptions, binder: BinderSettings, bus: BusOptions, environment: Mapping[str, str]
) -> ShownStatus:
    clock, cluster, configuration = SystemClock(), options.connection(), options.configuration
    mode: BinderMode | None = None
    hints: HintsState | None = None
    reclaimer: ReclaimerState | UnsetType = UNSET
    try:
        async with connect_kube(cluster, "status", clock) as kube:
            pods = await count_pods(kube, binder.limits.evictions_per_cluster)
            ledger = await read_status(kube, cluster.namespace, binder.limits, clock, cluster_pods=pods)
            hints = await read_hints_state(kube, clock)
            reclaims = await has_reclaimer(kube, cluster.namespace)
            if ledger.evictions == "allowed":
                mode = await _read_mode(bus, options, kube, cluster.namespace, clock)
        if reclaims:
            reclaimer = await _read_reclaimer(bus, options, clock)
    except KubeError as error:
        ledger = LedgerStatus(evictions="unknown", why=str(error))
    if mode is not None and configuration is not None:
        mode = with_configuration(mode, configuration, evict=binder.evict)
    status = combined(ledger, mode, cluster_name(cluster, environment), hints)
    return structs.replace(status, reclaimer=reclaimer)


async def _read_mode(bus: BusOptions, options: ClusterOptions, kube: Kube, namespace: str, clock: Clock) -> BinderMode:
    """Unknown, with the reason, if NATS cannot be reached."""
    try:
        async with reached(bus, options) as server:
            return await read_binder_mode(server, kube, namespace, clock)
    except CommandFailed as error:
        return BinderMode(mode="unknown", why=error.message)


async def _read_reclaimer(bus: BusOptions, options: ClusterOptions, clock: Clock) -> ReclaimerState:
    """Unknown, with the reason, if NATS cannot be reached."""
    try:
        async with reached(bus, options) as server:
            return await read_reclaimer_state(server, clock)
    except CommandFailed as error:
        return ReclaimerState(state="unknown", why=error.message)


async def count_pods(kube: Kube, limit: EvictionsPerCluster) -> int | None:
    """Pods on nodes, as binders count them, until more do not change the limit; None if they cannot be listed."""
    count = 0
    try:
        async with aclosing(kube.pages(PODS)) as pages:
            while not limit.enough_pods(count) and (page := await anext(pages, None)) is not None:
                count += sum(bool(pod.spec.node_name) and pod.status.phase not in FINISHED for pod in page)
    except KubeError:
        return None
    return count


async def read_status(
    kube: Kube, namespace: str, limits: Limits, clock: Clock, *, cluster_pods: int | None = None
) -> LedgerStatus:
    """By the ledger alone. `cluster_pods`: None if they were not counted. Raises KubeError."""
    try:
        stored = await read_installed(kube, namespace)
    except NotInstalled as error:
        return LedgerStatus(evictions="unknown", why=str(error))
    ledger = stored if isinstance(stored, LedgerClosed) else stored.ledger
    return ledger_status(ledger, limits, kube.server_time(clock.now()), cluster_pods=cluster_pods)


def with_configuration(mode: BinderMode, file: Path, *, evict: bool) -> BinderMode:
    """What binders report; if that is unknown, what they do if they use this file.

    Not if binders report something else, even if it is unknown whether they are of this cluster.
    """
    if mode.mode != "unknown" or not {REAL if evict else DRY_RUN}.issuperset(mode.reported):
        return mode
    why = f"binder.evict is {str(evict).lower()} in {file}, not confirmed by binders: {mode.why}"
    return BinderMode(mode="real" if evict else "dry run", why=why)


def combined(
    ledger: LedgerStatus, mode: BinderMode | None, cluster: ClusterName, hints: HintsState | None = None
) -> ShownStatus:
    """`mode`: needed if the ledger allows evictions."""
    status = ShownStatus(cluster=cluster, hints=hints, **structs.asdict(ledger))
    if mode is None:
        return status
    status = structs.replace(status, mode=mode.mode, mode_source=mode.why)
    if mode.mode == "real":
        return status
    if mode.mode == "dry run":
        return structs.replace(status, evictions="dry run")
    why = f"the ledger allows them; unknown whether binders evict or only dry-run: {mode.why}; use --nats or --config"
    return structs.replace(status, evictions="unknown", why=why)


def show(status: ShownStatus, to: Console, limits_source: str, *, wide: bool = False) -> None:
    """`limits_source`: where the limits come from."""
    styles = {"allowed": "bold red" if status.why else "bold green", "dry run": "bold yellow"}
    style = styles.get(status.evictions, "bold red")
    to.print(Text(f"cluster: {status.cluster}"))
    to.print(Text.assemble("evictions: ", (status.evictions, style), f" ({status.why})" if status.why else ""))
    if status.mode in ("real", "dry run"):
        to.print(Text(f"binders: {status.mode_source}"))
    if status.hints is not None:
        to.print(Text(f"placement hints: {status.hints}", "yellow" if status.hints.why else ""))
    if status.reclaimer is not UNSET:
        for line in reclaimer_lines(status.reclaimer, SystemClock().now()):
            to.print(Text(line, "" if status.reclaimer.state == "on" else "yellow"))
    if status.last_day is None:
        return
    if status.halved_until is not None:
        to.print(Text(f"limits: halved until {clock_time(status.halved_until)} after {status.halved_by}"))
    else:
        to.print(Text("limits: in full"))
    dry_runs = count(status.dry_runs_last_day or 0, "dry run")
    to.print(Text(f"last 24 hours: {count(status.last_day, 'eviction')}, {dry_runs}"))
    to.print(Text(f"usage is relative to {limits_source}"))
    for part in _parts(status, wide=wide):
        to.print()
        to.print(part)


def _parts(status: LedgerStatus, *, wide: bool) -> Iterator[Table | Text]:
    usage, in_half = table("limit", "scope", "used>", "max>", "window>"), status.halved_until is not None
    for each in status.usage:
        usage.add_row(each.limit, each.scope, str(each.counted), maximum_text(each, in_half=in_half), each.window)
    yield usage
    if not status.pending:
        yield Text("no pending evictions")
    else:
        yield _entries("pending since", status.pending, settled=False, wide=wide)
    if status.last:
        yield _entries("finished", status.last, settled=True, wide=wide)


def _entries(title: str, entries: list[LedgerEntry], *, settled: bool, wide: bool) -> Table:
    made = table(title, "state", "pod", "node", "target", "workload", *(("intent",) if wide else ()), "detail")
    for entry in entries:
        at = (entry.settled_at if settled else None) or entry.reserved_at
        state = f"{state_text(entry)}{' (dry run)' if entry.dry_run and entry.outcome is None else ''}"
        pod = f"{entry.namespace}/{entry.pod}"
        last = (entry.intent_id, entry.detail) if wide else (entry.detail,)
        made.add_row(clock_time(at), state, pod, entry.node, entry.target, str(entry.workload or ""), *last)
    return made
