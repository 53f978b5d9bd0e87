"""Reads the ledger and what binders publish, and prints pause, usage of limits, pending and recent evictions."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec import UNSET, UnsetType, structs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.evictions_per_cluster import EvictionsPerCluster
from equipoise.binder.decisions.status import (
    LedgerStatus,
    allowed_text,
    campaign_text,
    ledger_status,
    rule_text,
    state_text,
)
from equipoise.binder.shell.ledger_store import NotInstalled, read_installed
from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.binder.state.ledger_json import clock_time
from equipoise.cli.bus.access import with_bus
from equipoise.cli.bus.emptied_nodes import read_emptied
from equipoise.cli.cluster_access.kubeconfig import ClusterName, cluster_name
from equipoise.cli.effective.comparison import default_lines, file_lines, several_lines, shortened
from equipoise.cli.effective.reading import CONNECT_SECONDS, read_effective
from equipoise.cli.effective.running import RunningConfiguration, Settings, not_known, running_configurations
from equipoise.cli.effective.settings import binder_settings, default_settings, file_settings
from equipoise.cli.effective.trust import published_moves
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.hints.state import HintsState, read_hints_state
from equipoise.cli.options import BusOptions, ClusterOptions, Output
from equipoise.cli.reclaimed.state import ReclaimerState, has_reclaimer, read_reclaimer_state, reclaimer_lines
from equipoise.cli.status.binder_mode import BinderMode, read_binder_mode
from equipoise.cli.terminal import count, print_result, table, time_of_day
from equipoise.contracts.configuration.moves import MovesInEffect
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.bus import BusError
from equipoise.runtime.bus.nats.connection import NatsConnection, connected_within
from equipoise.runtime.configuration import ConfigurationError, Logging, Nats
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging


class ShownStatus(LedgerStatus, frozen=True, kw_only=True, rename="camel"):
    """What the ledger and the binders state, as far as they could be read."""

    cluster: ClusterName
    mode: Literal["real", "dry run", "unknown"] | None = None
    """What binders do with intents; None if it does not matter, because the ledger allows no eviction."""

    mode_source: str = ""
    """The origin of the mode, or why it is unknown."""

    configurations: tuple[RunningConfiguration, ...] = ()
    """What binders run with; the limits above are those of the first one."""

    moves: MovesInEffect | None = None
    """How far pods are moved, by what services publish; None if it is not known."""

    configuration_problem: str = ""
    """Why it is not known what they run with."""

    configuration_lines: tuple[str, ...] = ()
    """How binders differ from one another, from --config and from the defaults."""

    emptied: tuple[NodeBeingEmptied, ...] | None = None
    """The nodes that consolidation is emptying; None if it is not known."""

    hints: HintsState | None = None
    """None: not read, because the ledger cannot be read."""

    reclaimer: ReclaimerState | UnsetType = UNSET
    """Unset: the cluster has no reclaimer."""


class OnBus(msgspec.Struct, frozen=True, kw_only=True):
    """What a command learns from the bus about the binders."""

    mode: BinderMode | None
    """The mode of the binders; None: not read."""

    configurations: tuple[RunningConfiguration, ...] = ()
    published: tuple[EffectiveConfiguration, ...] = ()
    """What all services published in the last hour."""

    moves: MovesInEffect | None = None
    problem: str = ""
    """Why there are no configurations."""

    emptied: tuple[NodeBeingEmptied, ...] | None = None
    """The nodes that consolidation is emptying; None if it is not known."""

    reclaimer: ReclaimerState | UnsetType = UNSET


async def run_status(
    options: ClusterOptions,
    bus: BusOptions,
    environment: Mapping[str, str],
    *,
    output: Output,
    watch: float | None = None,
) -> None:
    """Run the command; `watch`: seconds until it is repeated, without end.

    Raises InvalidInput, ConfigurationError, and CommandFailed if it is unknown whether pods may be evicted.
    """
    configure_logging(Logging(level="error"), "status")
    file = None if options.configuration is None else file_settings(options.configuration, environment)
    while True:
        status = await _read(options, file, bus, environment)
        if watch is not None and output in ("text", "wide"):
            click.clear()
        show_status = partial(show, now=SystemClock().now(), wide=output == "wide")
        print_result(status, show_status, output=output, watched=watch is not None)
        if watch is None:
            break
        await asyncio.sleep(watch)
    if status.evictions == "unknown":
        raise CommandFailed("it is unknown whether pods may be evicted")


async def _read(
    options: ClusterOptions, file: Settings | None, bus: BusOptions, environment: Mapping[str, str]
) -> ShownStatus:
    clock, cluster = SystemClock(), options.connection()
    name = cluster_name(cluster, environment)
    try:
        async with connect_kube(cluster, "status", clock) as kube:
            stored = await stored_ledger(kube, cluster.namespace)
            if isinstance(stored, LedgerStatus):
                return combined(stored, None, name, await read_hints_state(kube, clock))
            reclaims = await has_reclaimer(kube, cluster.namespace)
            on_bus = await _read_bus(
                bus, options, kube, cluster.namespace, clock, reclaims=reclaims, paused=stored.paused
            )
            hints = await read_hints_state(kube, clock, on_bus.published)
            ledger = await _with_limits(stored, on_bus.configurations, kube, clock)
    except KubeError as error:
        return combined(LedgerStatus(evictions="unknown", why=str(error)), None, name)
    lines = configuration_lines(on_bus.configurations, file, options.configuration)
    status = combined(ledger, None if ledger.evictions == "paused" else on_bus.mode, name, hints)
    return structs.replace(
        status,
        configurations=on_bus.configurations,
        moves=on_bus.moves,
        emptied=on_bus.emptied,
        configuration_problem=on_bus.problem,
        configuration_lines=tuple(lines),
        reclaimer=on_bus.reclaimer,
    )


async def stored_ledger(kube: Kube, namespace: str) -> Ledger | LedgerStatus:
    """The ledger; the status if there is none that can be used. Raises KubeError."""
    try:
        stored = await read_installed(kube, namespace)
    except NotInstalled as error:
        return LedgerStatus(evictions="unknown", why=str(error))
    return ledger_status(stored, None, 0.0) if isinstance(stored, LedgerClosed) else stored.ledger


async def _with_limits(
    ledger: Ledger, configurations: Sequence[RunningConfiguration], kube: Kube, clock: Clock
) -> LedgerStatus:
    """The status with the limits of the first configuration, and whether each configuration allows evictions now."""
    now = kube.server_time(clock.now())
    found = [(each, limits_of(each)) for each in configurations]
    limits = found[0][1] if found else None
    pods = None if limits is None else await count_pods(kube, limits.evictions_per_cluster)
    status = ledger_status(ledger, limits, now, cluster_pods=pods)
    if ledger.paused:
        return status
    reasons = {each.named: ledger_status(ledger, of_each, now).why for each, of_each in found}
    if len(set(reasons.values())) < 2:
        return status
    why = "; ".join(f"by {named}: {reason or 'no maintenance time forbids them'}" for named, reason in reasons.items())
    return structs.replace(status, why=why)


def limits_of(running: RunningConfiguration) -> Limits | None:
    """The limits of a binder; None if this version cannot read them."""
    try:
        return binder_settings(running.settings).limits
    except ConfigurationError:
        return None


async def _read_bus(
    bus: BusOptions,
    options: ClusterOptions,
    kube: Kube,
    namespace: str,
    clock: Clock,
    *,
    reclaims: bool,
    paused: bool,
) -> OnBus:
    """What the bus has about binders; if NATS cannot be reached, all is unknown, with the reason.

    `paused`: whether evictions are paused. Then it does not matter what binders do, and their mode is not read.
    """

    async def read(server: Nats) -> OnBus:
        # By one connection: through a port-forward, each takes a while.
        async with connected_within(CONNECT_SECONDS, server, "tap", clock) as link:
            messages, problem = await _published(link, clock)
            reclaimer = await read_reclaimer_state(link, clock) if reclaims else UNSET
            emptied = tuple(await read_emptied(link, clock))
        mode = None if paused else await read_binder_mode(server, kube, namespace, clock, messages)
        running = tuple(running_configurations(messages, "binder", clock.now()))
        return OnBus(
            mode=mode,
            configurations=running,
            published=tuple(messages),
            moves=None if problem else published_moves(messages, clock.now()),
            problem=problem or ("" if running else not_known("binder")),
            emptied=emptied,
            reclaimer=reclaimer,
        )

    try:
        return await with_bus(bus, options, read)
    except (CommandFailed, BusError) as error:
        why = str(error)
        reclaimer = ReclaimerState(state="unknown", why=why) if reclaims else UNSET
        return OnBus(mode=BinderMode(mode="unknown", why=why), problem=f"not known: {why}", reclaimer=reclaimer)


async def _published(link: NatsConnection, clock: Clock) -> tuple[list[EffectiveConfiguration], str]:
    """The configurations, and why there are none: services of an earlier version publish only heartbeats."""
    try:
        return await read_effective(link, clock), ""
    except BusError as error:
        return [], f"not known: {error}"


def configuration_lines(
    running: Sequence[RunningConfiguration], file: Settings | None, path: Path | None
) -> Iterator[str]:
    """How binders differ from one another and from the file; without a file, from the defaults."""
    yield from several_lines(running)
    if file is not None and path is not None:
        yield from file_lines(str(path), file, running)
    elif running and (changed := default_lines(default_settings(), running[0])):
        yield f"not the default in {running[0].named}:"
        yield from shortened(changed)


async def count_pods(kube: Kube, limit: EvictionsPerCluster) -> int | None:
    """The number of pods on nodes, as binders count them; None if they cannot be listed.

    Counting ends when more pods would not change the limit.
    """
    count = 0
    try:
        async with aclosing(kube.pages(PODS)) as pages:
            while not limit.enough_pods(count) and (page := await anext(pages, None)) is not None:
                count += sum(occupies_node(pod) for pod in page)
    except KubeError:
        return None
    return count


async def read_status(kube: Kube, namespace: str, limits: Limits | None, clock: Clock) -> LedgerStatus:
    """The status by the ledger alone, without the number of pods. `limits`: None if not known. Raises KubeError."""
    stored = await stored_ledger(kube, namespace)
    if isinstance(stored, LedgerStatus):
        return stored
    return ledger_status(stored, limits, kube.server_time(clock.now()))


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
    why = f"the ledger allows them; unknown whether binders evict or only dry-run: {mode.why}"
    return structs.replace(status, evictions="unknown", why=why)


def show(status: ShownStatus, to: Console, *, now: float, wide: bool = False) -> None:
    """Prints the status. `now`: the time from which ages are computed."""
    styles = {"allowed": "bold red" if status.why else "bold green", "dry run": "bold yellow"}
    style = styles.get(status.evictions, "bold red")
    to.print(Text(f"cluster: {status.cluster}"))
    to.print(Text.assemble("evictions: ", (status.evictions, style), f" ({status.why})" if status.why else ""))
    if status.campaign is not None:
        to.print(Text(campaign_text(status.campaign), "bold" if status.campaign.ended_at is None else ""))
    if status.mode in ("real", "dry run"):
        to.print(Text(f"binders: {status.mode_source}"))
    if status.moves is not None:
        to.print(Text(f"moves: {status.moves}"))
    for node in status.emptied or ():
        to.print(Text(f"consolidation: {node.node} is {node.text}"))
    for line in _configuration(status, now):
        to.print(line)
    if status.hints is not None:
        to.print(Text(f"placement hints: {status.hints}", "yellow" if status.hints.why else ""))
    if status.reclaimer is not UNSET:
        for text in reclaimer_lines(status.reclaimer, now):
            to.print(Text(text, "" if status.reclaimer.state == "on" else "yellow"))
    if status.last_day is None:
        return
    if not status.configurations:
        to.print(Text("limits: not known", "yellow"))
    elif not status.configurations[0].current:
        to.print(Text(f"limits: those that {status.configurations[0].named} had; it may no longer run", "yellow"))
    elif status.halved_until is not None:
        to.print(Text(f"limits: halved until {clock_time(status.halved_until)} after {status.halved_by}"))
    else:
        to.print(Text("limits: in full"))
    dry_runs = count(status.dry_runs_last_day or 0, "dry run")
    to.print(Text(f"last 24 hours: {count(status.last_day, 'eviction')}, {dry_runs}"))
    for part in _parts(status, wide=wide):
        to.print()
        to.print(part)


def _configuration(status: ShownStatus, now: float) -> Iterator[Text]:
    if status.configuration_problem:
        yield Text(f"configuration: {status.configuration_problem}", "yellow")
    for each in status.configurations:
        yield Text(f"configuration: of {each.named}, {each.age_text(now)}", "" if each.current else "yellow")
    yield from (Text(f"  {line}", "yellow") for line in status.configuration_lines)


def _parts(status: ShownStatus, *, wide: bool) -> Iterator[Table | Text]:
    if status.usage:
        if status.usage_of_dry_runs:
            yield Text("used by dry runs, which take nothing from the limits of evictions:")
        yield _usage(status, wide=wide)
    if not status.pending:
        yield Text("no pending evictions" if status.configurations else "no reserved evictions")
    else:
        yield _entries("pending since", status.pending, settled=False, wide=wide)
    if status.last:
        yield _entries("finished", status.last, settled=True, wide=wide)


def _usage(status: LedgerStatus, *, wide: bool) -> Table:
    rule = ("rule",) if wide else ()
    made = table("limit", "scope", "used>", "allowed>", "window>", "free again", *rule)
    halved = status.halved_until is not None
    for each in status.usage:
        free = "" if each.free_at is None else time_of_day(each.free_at)
        rules = (rule_text(each, in_half=halved),) if wide else ()
        made.add_row(each.limit, each.scope, str(each.counted), allowed_text(each), each.window, free, *rules)
    return made


def _entries(title: str, entries: list[LedgerEntry], *, settled: bool, wide: bool) -> Table:
    made = table(title, "state", "pod", "node", "target", "workload", *(("intent",) if wide else ()), "detail")
    for entry in entries:
        at = (entry.settled_at if settled else None) or entry.reserved_at
        state = f"{state_text(entry)}{' (dry run)' if entry.dry_run and entry.outcome is None else ''}"
        pod = f"{entry.namespace}/{entry.pod}"
        last = (entry.intent_id, entry.detail) if wide else (entry.detail,)
        made.add_row(clock_time(at), state, pod, entry.node, entry.target, str(entry.workload or ""), *last)
    return made
