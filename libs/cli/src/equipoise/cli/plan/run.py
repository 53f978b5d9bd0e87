"""Requests the plan from the leading descheduler, and prints the plan or its changes."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.bus.cluster import BusCluster, bus_cluster, leader_in_cluster, plan_cluster
from equipoise.cli.bus.messages import send_request
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.plan.changes import LastPlans, NodeChange, PlanChanges, plan_changes
from equipoise.cli.plan.plan_hints import PlanHints, read_plan_hints
from equipoise.cli.plan.plan_limits import PlanLimits, read_plan_limits
from equipoise.cli.plan.summary import cost_text, gain_text, plan_sentence
from equipoise.cli.plan.waiting import waiting_nodes
from equipoise.cli.status.in_effect import NOTHING_KNOWN, InEffect, read_in_effect
from equipoise.cli.terminal import (
    RESOURCES,
    UNIT,
    amount,
    amounts,
    day_and_time,
    duration,
    percent,
    percentages,
    print_result,
    print_section,
    table,
    time_of_day,
)
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.messages.descheduling import URGENCY, RefusedMove
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.contracts.messages.plan import PendingMove, PlannedMove, PlannedNode, PlanRequest, PlanResponse
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import NoResponders
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

S = TypeVar("S", bound=msgspec.Struct)

NO_LEADER = (
    "no descheduler leads at {url}, and only the leader has a plan: check that one is running and holds its Lease "
    "(`leading` in its /readyz)"
)


class ShownPlan(PlanResponse, frozen=True, kw_only=True):
    """The plan, and the cluster for which it was made."""

    cluster: BusCluster
    hints: PlanHints | None = None
    """None: unknown, because the bus is not known to be that of the cluster of the kubeconfig."""

    in_effect: InEffect = NOTHING_KNOWN

    limits: PlanLimits | None = None
    """The limits for the planned moves; None if they are unknown."""


class ShownChanges(PlanChanges, frozen=True, kw_only=True):
    """The changes, and the cluster whose plan changed."""

    cluster: BusCluster


async def run_plan(
    server: Nats,
    options: ClusterOptions,
    environment: Mapping[str, str],
    *,
    output: Output,
    only_changes: bool,
    watch: float | None = None,
) -> int:
    """Run the command and return the number of planned moves. The plan is saved for the next `--diff`.

    `watch`: seconds between two plans. The command then does not end, and shows the changes of all plans but the first.
    Raises BusError, and CommandFailed if it is unknown whether binders evict, or if the plan is of another cluster.
    """
    configure_logging(Logging(level="error"), "plan")
    bus_cluster(options, server)  # reports invalid options first
    plans, watched = LastPlans(environment), watch is not None
    while True:
        plan = await _request(server, options)
        cluster = await plan_cluster(options, plan.leader.lease_uid, server)
        before = plans.last(plan)
        if only_changes and before is None:
            click.echo("no earlier plan of this cluster: everything is new", err=True)
        # Without an earlier plan, text is the whole plan, and JSON and YAML have every move as a change.
        if only_changes and (output in ("json", "yaml") or before is not None):
            changes = plan_changes(before or PlanResponse(leader=plan.leader, planned_at=plan.planned_at), plan)
            if watch is None or not changes.empty:
                shown_changes = ShownChanges(cluster=cluster, **msgspec.structs.asdict(changes))
                print_result(shown_changes, _with_cluster(cluster, show_changes), output=output, watched=watched)
        else:
            confirmed = cluster.state == "confirmed"
            hints = await read_plan_hints(plan, options) if confirmed else None
            limits = await read_plan_limits(plan, server, options) if confirmed else None
            in_effect = await read_in_effect(server, options, SystemClock(), ledger=confirmed)
            shown_plan = ShownPlan(
                cluster=cluster, hints=hints, limits=limits, in_effect=in_effect, **msgspec.structs.asdict(plan)
            )
            show_plan = partial(show, wide=output == "wide", hints=hints, limits=limits, in_effect=in_effect)
            print_result(shown_plan, _with_cluster(cluster, show_plan), output=output, watched=watched)
        try:
            plans.save(plan)
        except OSError as error:
            click.echo(f"could not save the plan for --diff: {error.filename}: {error.strerror}", err=True)
        if cluster.state == "another":
            raise CommandFailed(
                "the plan is not of the cluster of the kubeconfig: check --nats, --context and --kubeconfig"
            )
        if watch is None:
            if not plan.evictions:
                raise CommandFailed("it is unknown whether binders evict")
            return len(plan.moves)
        only_changes = True
        await asyncio.sleep(watch)


async def _request(server: Nats, options: ClusterOptions) -> PlanResponse:
    try:
        return await send_request(server, PLAN_PREVIEW, PlanRequest(), PlanResponse, no_responder="")
    except NoResponders:
        no_leader = f"{NO_LEADER.format(url=server.shown_url)}{await leader_in_cluster(options)}"
        raise NoResponders(no_leader) from None


def _with_cluster(cluster: BusCluster, show: Callable[[S, Console], None]) -> Callable[[S, Console], None]:
    def show_with_cluster(value: S, to: Console) -> None:
        to.print(Text(str(cluster)))
        show(value, to)

    return show_with_cluster


MAX_ROWS = 20
"""The largest number of rows of each table except planned moves. With -o wide, json or yaml there is no limit."""

BINDER_DECIDES = (
    "Without a gap: only the binder reads Services and ResourceQuotas, and moves no pod that a Service selects by its "
    "template, or for whose replacement a quota has no room."
)

_Section = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def show(
    plan: PlanResponse,
    to: Console,
    *,
    wide: bool = False,
    hints: PlanHints | None = None,
    in_effect: InEffect = NOTHING_KNOWN,
    limits: PlanLimits | None = None,
) -> None:
    """Planned moves, nodes, refused moves, pending moves, dry-run moves and cooldowns."""
    refusals = {} if limits is None else limits.refusals
    for line in _headline(plan, hints, in_effect, limits):
        to.print(line)
    if plan.shortened:
        to.print(Text(f"The plan was too large for the bus: it is {plan.shortened}.", style="yellow"))
    if plan.moves:
        rows = _moves(plan.moves, refusals, with_strategy=wide or _strategies(plan) > 1)
        print_section(to, "Planned moves", rows)
    if any(move.without_gap for move in plan.moves):
        to.print(Text(BINDER_DECIDES))
    if plan.nodes:
        nodes = _by_node(plan.nodes)
        limit = len(nodes) if wide else MAX_ROWS
        rows = _nodes(nodes[:limit], plan.interval, with_strategy=wide or _strategies(plan) > 1)
        print_section(to, f"Nodes{_shortened(nodes, limit)}", rows)
    for title, columns, cells in _sections(plan, hints):
        if cells:
            limit = len(cells) if wide else MAX_ROWS
            made = table(*columns)
            for row in cells[:limit]:
                made.add_row(*row)
            print_section(to, f"{title}{_shortened(cells, limit)}", made)
    if sentence := plan_sentence(plan):
        to.print()
        to.print(Text(sentence, style="bold"))


def _strategies(plan: PlanResponse) -> int:
    return len({move.strategy for move in plan.moves} | {node.strategy for node in plan.nodes})


def _sections(plan: PlanResponse, hints: PlanHints | None) -> Iterator[_Section]:
    yield "Not moved", ("pod", "node", "reason"), [(each.pod or "(any)", each.node, each.why) for each in plan.refused]
    yield (
        "Pending moves",
        ("pod", "move", "state"),
        [(each.pod_name, f"{each.node} → {each.target}", _pending_state(each, hints)) for each in plan.pending],
    )
    yield (
        "Dry-run moves, counted above as done",
        ("pod", "move", "until"),
        [(each.pod_name, f"{each.node} → {each.target}", day_and_time(each.until)) for each in plan.dry_run_moves],
    )
    yield (
        "Nodes in cooldown",
        ("node", "until", "reason"),
        [(each.node, day_and_time(each.until), each.why) for each in plan.cooldowns],
    )


def show_changes(changes: PlanChanges, to: Console) -> None:
    """One line per change: `+` added, `-` removed, `~` changed."""
    since = f"since the plan of {day_and_time(changes.since)} ({duration(changes.until - changes.since)} earlier)"
    if changes.empty:
        to.print(Text(f"No changes {since}"))
        return
    to.print(Text.assemble(("Changes", "bold"), f" {since}"))
    for move in changes.added:
        to.print(Text(f"+ {move.pod_name}  {move.node} → {move.target}  {move.reason}", style="green"))
    for move in changes.removed:
        to.print(Text(f"- {move.pod_name}  {move.node} → {move.target}", style="red"))
    for retargeted in changes.retargeted:
        move = retargeted.move
        line = f"~ {move.pod_name}  {move.node} → {move.target} (was {retargeted.previous_target})"
        to.print(Text(line, style="yellow"))
    for change in changes.nodes:
        to.print(Text(f"~ node {change.node} ({change.strategy}): {_node_change(change)}", style="yellow"))
    for refused in changes.refused_added:
        to.print(Text(f"+ not moved: {_refused_pod(refused)}: {refused.why}"))
    for refused in changes.refused_removed:
        to.print(Text(f"- not moved: {_refused_pod(refused)}: {refused.why}"))
    if changes.evictions != changes.evictions_before:
        before, now = changes.evictions_before or "unknown", changes.evictions or "unknown"
        to.print(Text(f"~ evictions: {now} (was {before})"))


def _headline(
    plan: PlanResponse, hints: PlanHints | None, in_effect: InEffect, limits: PlanLimits | None
) -> Iterator[Text]:
    count = "1 pod would move" if len(plan.moves) == 1 else f"{len(plan.moves)} pods would move"
    source = f" ({plan.considered} nodes, {day_and_time(plan.planned_at)}, planned by {plan.leader.holder})"
    yield Text.assemble((count, "bold"), source)
    possible = plan.evictions in (REAL, DRY_RUN)  # any other state is itself the reason why nothing is evicted
    restriction = f", now restricted: {in_effect.restriction}" if in_effect.restriction and possible else ""
    yield Text(f"evictions: {_evictions(plan.evictions)}{restriction}", style="yellow" if restriction else "")
    yield from (Text(line) for line in in_effect.lines)
    if limits is not None and plan.moves:
        yield from _limits(plan, limits)
    if hints is not None and hints.status.state == "on":
        yield Text("placement hints: on; once a move is proposed, new pods of its workload prefer the target")
    if sentence := _preferred_without_scores(plan.moves):
        yield Text(sentence)
    if waiting := waiting_nodes(plan):
        fewest = min(waiting.values())
        which = "the hot node" if len(waiting) == 1 else f"one of the {len(waiting)} hot nodes"
        evaluations = "evaluation" if fewest == 1 else "evaluations"
        yield Text(
            f"Preview. Nothing is proposed until {which} stays above its threshold for {fewest} more {evaluations} "
            f"(about {duration(fewest * plan.interval)})."
        )
    for strategy, why in plan.why.items():
        yield Text(f"{strategy}: {why}", style="yellow")


def _limits(plan: PlanResponse, limits: PlanLimits) -> Iterator[Text]:
    if limits.problem:
        yield Text(f"which moves the limits allow now is not known: {limits.problem}", style="yellow")
    elif limits.refusals:
        allowed = sum(not move.later for move in plan.moves) - len(limits.refusals)
        first = next(iter(limits.refusals.values()))
        yield Text(f"The limits allow {allowed or 'none'} of these moves now ({first})", style="yellow")


def _preferred_without_scores(moves: Sequence[PlannedMove]) -> str:
    """A sentence about where kube-scheduler would place the replacements without scores of Equipoise; "" if it is
    unknown.
    """
    known = [move for move in moves if move.preferred_without_scores]
    if not known:
        return ""
    on_target = sum(move.preferred_without_scores == move.target for move in known)
    if len(known) == 1:
        where = "the planned node" if on_target else known[0].preferred_without_scores
        preference = f"{where} for the replacement"
    else:
        preference = f"the planned node for {on_target} of {len(known)} replacements"
    return f"Without the extender or placement hints, kube-scheduler would prefer {preference}."


def _evictions(state: str) -> str:
    match state:
        case "":
            return "unknown, no heartbeat of a binder: check that one is running"
        case "dry run":
            return "dry run (binder.evict is false)"
        case _:
            return state


def _moves(moves: Sequence[PlannedMove], refusals: Mapping[str, str], *, with_strategy: bool) -> Table:
    """A row for each planned move. `refusals`: see `PlanLimits`."""
    strategy = ("strategy",) if with_strategy else ()
    made = table("pod", "workload", "from", "to", "usage", "gain>", "cost", "sample", *strategy, "reason")
    for move in moves:
        workload = "" if move.workload is None else f"{move.workload.kind}/{move.workload.name}"
        reason = f"without a gap: {move.reason}" if move.without_gap else move.reason
        reason = f"later, when the target has room: {reason}" if move.later else reason
        reason = f"not now: {reason}" if move.pod_name in refusals else reason
        last_cells = (move.strategy, reason) if with_strategy else (reason,)
        usage, sample = amounts(move.expected_reduction), time_of_day(move.sampled_at)
        made.add_row(
            move.pod_name,
            workload,
            move.node,
            move.target,
            usage,
            gain_text(move),
            cost_text(move),
            sample,
            *last_cells,
        )
    return made


def _by_node(nodes: Sequence[PlannedNode]) -> list[list[PlannedNode]]:
    """The plans of all strategies for each node, the most urgent plan first."""
    by_node: dict[str, list[PlannedNode]] = {}
    for node in nodes:
        by_node.setdefault(node.node, []).append(node)
    return [
        sorted(plans, key=lambda plan: (URGENCY.index(plan.state), plan.missing_evaluations))
        for plans in by_node.values()
    ]


def _nodes(nodes: Sequence[Sequence[PlannedNode]], interval: float, *, with_strategy: bool) -> Table:
    """A row per node: the state, the load and the evaluations of its first strategy, and the reasons of all."""
    strategy = ("strategies",) if with_strategy else ()
    all_nodes = [node for plans in nodes for node in plans]
    batch_work = ("batch work",) if any(node.batch_work for node in all_nodes) else ()
    bands = ("reclaimed: requested of offered",) if any(node.bands for node in all_nodes) else ()
    made = table("node", "state", "cpu", "memory", *batch_work, *bands, "evaluations needed", *strategy, "reason")
    for plans in nodes:
        node = plans[0]
        missing = node.missing_evaluations
        needed = "none" if node.state == "hot" else ""
        if missing:
            needed = f"{missing} ({duration(missing * interval)})"
        loads = (f"{percent(getattr(node.before, name))} → {percent(getattr(node.after, name))}" for name in RESOURCES)
        why = "; ".join(dict.fromkeys(each.why for each in plans if each.why))
        last_cells = (", ".join(each.strategy for each in plans), why) if with_strategy else (why,)
        style = "red" if node.state == "hot" else ""
        colocated = [
            *(["" if node.batch_work is None else percentages(node.batch_work)] if batch_work else []),
            *([_bands(node)] if bands else []),
        ]
        made.add_row(node.node, node.state, *loads, *colocated, needed, *last_cells, style=style)
    return made


def _bands(node: PlannedNode) -> str:
    """`batch 1.00 of 1.20 cores, 2.0 of 7.0 GiB`, per band."""
    return "; ".join(
        f"{band} "
        + ", ".join(
            f"{amount(reclaimed.requested, name)} of {amount(reclaimed.offered, name)} {unit}"
            for name, unit in UNIT.items()
        )
        for band, reclaimed in node.bands.items()
    )


def _shortened(entries: Sequence[object], limit: int) -> str:
    return f" (first {limit} of {len(entries)}, -o wide has all)" if len(entries) > limit else ""


def _pending_state(move: PendingMove, hints: PlanHints | None) -> str:
    at = move.evicted_at
    state = "proposed" if at is None else f"evicted at {time_of_day(at)}, replacement not placed yet"
    if hints is None or hints.status.state != "on":
        return state
    weight = hints.weight(move)
    if weight is None:
        return f"{state}; new pods of its workload get no hint"
    prefer = f"prefer the target with weight {weight}" if weight > 0 else "do not prefer the target now"
    return f"{state}; new pods of its workload {prefer}"


def _refused_pod(refused: RefusedMove) -> str:
    return f"{refused.pod} on {refused.node}" if refused.pod else refused.node


def _node_change(change: NodeChange) -> str:
    def state(node: PlannedNode | None) -> str:
        if node is None:
            return "not in the plan"
        return f"{node.state}, {node.missing_evaluations} evaluations needed" if node.state == "hot" else node.state

    now = change.now
    load = f"; {percentages(now.before)}" if now is not None and now.before != Resources() else ""
    return f"{state(change.now)} (was {state(change.before)}){load}"
