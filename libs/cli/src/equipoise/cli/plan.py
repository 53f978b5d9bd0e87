"""What would move now: asks the leading descheduler, and shows its plan, or what is new in it."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.plan_changes import LastPlans, NodeChange, PlanChanges, changes
from equipoise.cli.telling import RESOURCES, amounts, console, day_and_time, length, percent, table, time_of_day, under
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.contracts.messages.plan import PlannedMove, PlannedNode, PlanRequest, PlanResponse
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import BusUnavailable, NoAnswer, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

TIMEOUT = 20.0
"""Seconds for the bus and the plan together; of 5,000 nodes one takes seconds."""

_SHOWN = 20
"""Nodes, refusals, assumed moves: the rest is in the JSON."""


async def run_plan(server: Nats, environment: Mapping[str, str], *, as_json: bool, only_changes: bool) -> None:
    """The command. The plan becomes the last one shown of this cluster. Raises BusError when nobody answers."""
    configure_logging(Logging(level="error"), "plan")
    plan = await asked(server)
    plans = LastPlans(environment)
    before = plans.last(plan)
    if only_changes and before is None:
        click.echo("no plan of this cluster was shown before: everything is new", err=True)
    if only_changes and (as_json or before is not None):
        told = changes(before or PlanResponse(leader=plan.leader, planned_at=plan.planned_at), plan)
        _tell(told, as_json, lambda: show_changes(told, console()))
    else:
        _tell(plan, as_json, lambda: show(plan, console()))
    try:
        plans.keep(plan)
    except OSError as error:
        click.echo(f"the plan is not kept for --diff: {error.filename}: {error.strerror}", err=True)


def _tell(told: msgspec.Struct, as_json: bool, show_it: Callable[[], None]) -> None:
    if as_json:
        print(msgspec.json.encode(told).decode())
    else:
        show_it()


async def asked(server: Nats) -> PlanResponse:
    """Ask. Raises BusError when nobody answers in time."""
    try:
        async with asyncio.timeout(TIMEOUT), connect(server, "tap", clock=SystemClock()) as bus:
            return await bus.request(PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"nobody lets us in at {server.url} within {TIMEOUT:g} s: is NATS there (--nats), and is it the right user?"
        ) from None
    except NoAnswer:
        raise NoAnswer(
            f"no descheduler leads at {server.url}, and only the leader knows: is one running, and does it hold its "
            "Lease (`leading` in its /readyz)?"
        ) from None


def show(plan: PlanResponse, to: Console) -> None:
    """For people: what would move, what nodes become, who was refused, what is under way."""
    for line in _headline(plan):
        to.print(line)
    if plan.moves:
        under("Would move", _moves(plan.moves), to)
    if plan.nodes:
        under(f"Nodes{_more(plan.nodes)}", _nodes(plan.nodes[:_SHOWN], plan.interval), to)
    if plan.refused:
        under(f"Stay{_more(plan.refused)}", _refused(plan.refused[:_SHOWN]), to)
    if plan.pending:
        rows = (
            (f"{move.namespace}/{move.pod}", f"{move.node} → {move.target}", _since(move.evicted_at))
            for move in plan.pending[:_SHOWN]
        )
        under(f"Under way{_more(plan.pending)}", _rows(("pod", "move", "state"), rows), to)
    if plan.dry_run_moves:
        rows = (
            (f"{move.namespace}/{move.pod}", f"{move.node} → {move.target}", f"until {day_and_time(move.until)}")
            for move in plan.dry_run_moves[:_SHOWN]
        )
        title = f"Assumed moved in dry run, and counted so above{_more(plan.dry_run_moves)}"
        under(title, _rows(("pod", "move", "assumed"), rows), to)
    if plan.cooldowns:
        rest = ((each.node, f"until {day_and_time(each.until)}", each.why) for each in plan.cooldowns[:_SHOWN])
        under(f"Nodes left alone{_more(plan.cooldowns)}", _rows(("node", "for now", "why"), rest), to)


def show_changes(told: PlanChanges, to: Console) -> None:
    """For people: a line a change, `+` new, `-` gone, `~` different."""
    ago = length(told.until - told.since)
    if told.none:
        to.print(Text(f"nothing has changed since the plan of {day_and_time(told.since)}, {ago} before"))
        return
    to.print(Text.assemble(("What is new", "bold"), f" since the plan of {day_and_time(told.since)}, {ago} before"))
    for move in told.new:
        to.print(Text(f"+ {_name(move)}  {move.node} → {move.target}  {move.reason}", style="green"))
    for move in told.gone:
        to.print(Text(f"- {_name(move)}  {move.node} → {move.target}", style="red"))
    for each in told.redirected:
        move = each.move
        to.print(Text(f"~ {_name(move)}  {move.node} → {move.target}, before to {each.target_before}", style="yellow"))
    for change in told.nodes:
        to.print(Text(f"~ node {change.node}: {_state(change)}", style="yellow"))
    for refusal in told.newly_refused:
        to.print(Text(f"+ stays: {_who(refusal)}: {refusal.why}"))
    for refusal in told.no_longer_refused:
        to.print(Text(f"- stays: {_who(refusal)}: {refusal.why}"))
    if told.evictions != told.evictions_before:
        to.print(Text(f"~ evictions: {told.evictions or 'not known'}, before {told.evictions_before or 'not known'}"))


def _headline(plan: PlanResponse) -> Iterator[Text]:
    what = "1 pod would move" if len(plan.moves) == 1 else f"{len(plan.moves)} pods would move"
    place = f" of {plan.considered} nodes at {day_and_time(plan.planned_at)}, by {plan.leader.holder}"
    yield Text.assemble((what, "bold"), place)
    yield Text(f"evictions: {_evictions(plan.evictions)}")
    waiting = [node for node in plan.nodes if node.missing_evaluations]
    if waiting:
        fewest = min(node.missing_evaluations for node in waiting)
        time = length(fewest * plan.interval)
        more = "evaluation" if fewest == 1 else "evaluations"
        yield Text(
            f"this is for people: the first of {len(waiting)} hot nodes needs {fewest} more {more} over its mark, "
            f"about {time}, before anything is proposed"
        )
    for strategy, why in plan.why.items():
        yield Text(f"{strategy}: {why}", style="yellow")


def _evictions(told: str) -> str:
    match told:
        case "":
            return "not known, for no binder was heard lately: is one running?"
        case "real":
            return "real"
        case "dry run":
            return "dry run (binder.evict is false): nothing is evicted"
        case _:
            return told


def _moves(moves: Sequence[PlannedMove]) -> Table:
    made = table("pod", "workload", "from", "to", "uses", "sample", "why")
    for move in moves:
        workload = "" if move.workload is None else f"{move.workload.kind}/{move.workload.name}"
        sample = time_of_day(move.sampled_at)
        why = f"once there is room: {move.reason}" if move.later else move.reason
        made.add_row(_name(move), workload, move.node, move.target, amounts(move.expected_reduction), sample, why)
    return made


def _nodes(nodes: Sequence[PlannedNode], interval: float) -> Table:
    made = table("node", "state", "cpu", "memory", "needed", "why")
    for node in nodes:
        missing = node.missing_evaluations
        needed = f"{missing} more ({length(missing * interval)})" if missing else "none" if node.state == "hot" else ""
        loads = (f"{percent(getattr(node.before, name))} → {percent(getattr(node.after, name))}" for name in RESOURCES)
        made.add_row(node.node, node.state, *loads, needed, node.why, style="red" if node.state == "hot" else "")
    return made


def _refused(refused: Sequence[RefusedMove]) -> Table:
    made = table("pod", "node", "why")
    for each in refused:
        made.add_row(each.pod or "(any)", each.node, each.why)
    return made


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    made = table(*columns)
    for row in rows:
        made.add_row(*row)
    return made


def _more(entries: Sequence[object]) -> str:
    return f" (the first {_SHOWN} of {len(entries)}; -o json has all)" if len(entries) > _SHOWN else ""


def _since(evicted_at: float | None) -> str:
    return "proposed" if evicted_at is None else f"evicted {time_of_day(evicted_at)}, no replacement seen"


def _name(move: PlannedMove) -> str:
    return f"{move.namespace}/{move.pod}"


def _who(refusal: RefusedMove) -> str:
    return f"{refusal.pod} on {refusal.node}" if refusal.pod else refusal.node


def _state(change: NodeChange) -> str:
    def told(node: PlannedNode | None) -> str:
        if node is None:
            return "neither hot nor touched"
        return f"{node.state}, {node.missing_evaluations} evaluations needed" if node.state == "hot" else node.state

    return f"{told(change.now)} (before {told(change.before)}){_load(change.now)}"


def _load(node: PlannedNode | None) -> str:
    if node is None or node.before == Resources():
        return ""
    return "; " + ", ".join(f"{name} {percent(getattr(node.before, name))}" for name in RESOURCES)
