"""Messages of the bus as lines of text."""

import sys
from collections.abc import Callable
from functools import singledispatch

import msgspec

from equipoise.cli.terminal import amounts, json_line, percentages
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.consolidation import NodesBeingEmptied
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import EffectiveConfiguration, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement, PlacementHints, WorkloadHint
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.score import ScoreDecision
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization

Printer = Callable[[str, msgspec.Struct], None]
"""Prints a subject and its message."""

MIN_SUBJECT_WIDTH, MAX_SUBJECT_WIDTH = 24, 64
"""The widths of the column of subjects, in characters."""


def json_printer() -> Printer:
    """A printer of one JSON object per line."""

    def show(subject: str, message: msgspec.Struct) -> None:
        print(json_line({"subject": subject, "message": message}), flush=True)

    return show


def text_printer() -> Printer:
    """A printer of subject and message in two columns. On a terminal they are colored and folded."""
    width = MIN_SUBJECT_WIDTH

    def short_name(subject: str) -> str:
        nonlocal width
        name = subject.removeprefix(f"{PREFIX}.")
        width = max(width, min(len(name), MAX_SUBJECT_WIDTH))
        return name

    def plain(subject: str, message: msgspec.Struct) -> None:
        print(f"{short_name(subject):<{width}}  {describe(message)}", flush=True)

    if not sys.stdout.isatty():
        return plain

    from rich.table import Table
    from rich.text import Text

    from equipoise.cli.terminal import VisibleConsole

    console = VisibleConsole()

    def folded(subject: str, message: msgspec.Struct) -> None:
        name = short_name(subject)
        line = Table.grid(padding=(0, 2), expand=True)
        line.add_column(width=min(width, console.width // 2), overflow="fold")
        line.add_column(ratio=1)
        line.add_row(Text(name, style=_COLORS.get(name.split(".", 1)[0], "cyan")), Text(describe(message)))
        console.print(line)

    return folded


_COLORS = {"eviction": "bold red", "decision": "yellow", "annotation": "magenta", "health": "dim"}


@singledispatch
def describe(message: msgspec.Struct) -> str:
    """A message as one line of text. A message without a description is printed as JSON."""
    return msgspec.json.encode(message).decode()


def _windows(message: NodeUtilization | WorkloadUtilization) -> str:
    return "   ".join(f"{name} {amounts(window.mean)}" for name, window in message.windows.items()) or "unknown"


@describe.register
def _node(message: NodeUtilization) -> str:
    age = max(0.0, message.queried_at - message.sampled_at)  # Prometheus may store a sample while it answers the query
    return f"{_windows(message)}   ({len(message.pods)} pods, sample age {age:.1f} s)"


@describe.register
def _workload(message: WorkloadUtilization) -> str:
    return f"{_windows(message)} per replica ({message.replicas} measured)"


@describe.register
def _cycle(message: UtilizationCycle) -> str:
    return f"cycle {message.cycle}: {message.fresh} of {message.expected} nodes fresh {message.problem}".rstrip()


@describe.register
def _placement(message: NodePlacement) -> str:
    state = "deleted" if message.removed else "ready" if message.ready else "not ready"
    return f"{state}, {len(message.pods)} pods, {len(message.gone)} recently deleted"


@describe.register
def _emptying(message: NodesBeingEmptied) -> str:
    return "; ".join(f"{node.node} is being emptied: {node.why}" for node in message.nodes) or "no node"


@describe.register
def _hints(message: PlacementHints) -> str:
    return "; ".join(f"{key}: {_hint(hint)}" for key, hint in message.by_workload.items()) or "none"


def _hint(hint: WorkloadHint) -> str:
    best = hint.prefer[0].hostnames[0] if hint.prefer else "none"
    preferred = len({name for term in hint.prefer for name in term.hostnames})
    return f"best {best}, {preferred} preferred, {len(hint.avoid.hostnames) if hint.avoid else 0} avoided"


@describe.register
def _intent(message: EvictionIntent) -> str:
    how = "move without a gap" if message.without_gap else "evict"
    return f"{how} from {message.node}, target {message.target or 'any'}: {message.reason}"


@describe.register
def _outcome(message: EvictionOutcome) -> str:
    return f"{message.outcome} from {message.node}, target {message.target or 'any'} {message.detail}".rstrip()


@describe.register
def _annotation(message: AnnotationWritten) -> str:
    values = ", ".join(f"{key}={value}" for key, value in message.annotations.items())
    return f"{message.object}: {values} ({message.why})"


@describe.register
def _reclaimed(message: ReclaimedNode) -> str:
    bands = "; ".join(f"{name} {amounts(band.offered)}" for name, band in message.bands.items() if name != "free")
    return f"offered {bands}{f' ({message.degraded})' if message.degraded else ''}"


@describe.register
def _score(message: ScoreDecision) -> str:
    best = ", ".join(f"{node.node} {node.extender_score} ({node.score:.0f})" for node in message.best[:5])
    demand = f"expected usage {amounts(message.demand)} ({message.demand_source})"
    return f"{'neutral: ' + message.why if message.neutral else best}; {demand}; {message.considered} nodes"


@describe.register
def _advice(message: PlacementAdvice) -> str:
    if message.rank is None or message.regret is None or message.best is None:
        return f"on {message.node}: {message.why}"
    place = f"on {message.node}: rank {message.rank} of {message.considered}"
    return place if message.rank == 1 else f"{place}, {message.regret:.0f} points below {message.best.node}"


@describe.register
def _review(message: ClusterReview) -> str:
    over = ", ".join(f"{node} {seconds:.0f} s" for node, seconds in list(message.over.items())[:8])
    return f"{message.seen:.0f} s observed, {message.nodes:.0f} nodes; above their thresholds: {over or 'none'}"


@describe.register
def _deschedule(message: DescheduleDecision) -> str:
    hot = [f"{node.node} ({percentages(node.load)})" for node in message.nodes if node.state == "hot"]
    result = f"{len(message.intents)} intents" if message.intents else message.why
    result += f"; {len(message.dry_run_moves)} dry-run moves" if message.dry_run_moves else ""
    return f"hot: {', '.join(hot[:8]) or 'none'}; {result}; {len(message.refused)} moves rejected"


@describe.register
def _health(message: Heartbeat) -> str:
    state = "ready" if message.ready else "not ready"
    role = {True: ", leader", False: ", standby", None: ""}[message.leading]
    problems = f": {'; '.join(message.problems)}" if message.problems else ""
    return f"{state}{role}{problems}"


@describe.register
def _configuration(message: EffectiveConfiguration) -> str:
    state = "stopped" if message.stopped else "runs with"
    evictions = f", evictions: {message.evictions}" if message.evictions else ""
    return f"{state} configuration {message.hash} (version {message.version}{evictions})"
