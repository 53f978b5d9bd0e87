"""Rows of the live view as text: for the screen of `equipoise top`, and for its plain table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from equipoise.cli.terminal import column_widths, percent, table, time_of_day
from equipoise.cli.views.rows import Changes, ClusterSummary, LimitsRow, MoveRow, NodeRow, PlanRow
from equipoise.contracts.messages.plan import PlannedMove

T = TypeVar("T")

NODE_COLUMNS = ("node", "cpu>", "cpu requested>", "memory>", "memory requested>", "pods>", "state")
BAR = 12
"""Characters of a full bar."""

BARS = (BAR, 5, 0)
"""The widths of bars to try, for wide terminals first."""

PART = 14
"""Words of more characters may be broken."""

_PARTS = " ▏▎▍▌▋▊▉"
_BLOCKS = frozenset(f"█·{_PARTS}")

HIGH, MIDDLE = 0.8, 0.6
"""The loads at which bars become red and yellow. They are not the thresholds of strategies, which the state shows."""


def node_cells(row: NodeRow) -> tuple[str, ...]:
    """The cells of a row in the order of `NODE_COLUMNS`. Unknown is `?`, never 0."""
    return (
        row.node,
        percent(row.cpu),
        percent(row.cpu_requests),
        percent(row.memory),
        percent(row.memory_requests),
        "?" if row.pods is None else str(row.pods),
        ", ".join(state_words(row)),
    )


class MeasuredColumns(NamedTuple):
    """The columns that the table has only if at least one node has a value."""

    further: tuple[str, ...] = ()
    """The names of further resources (`load.resources`)."""

    waits: bool = False
    """Whether the pressure of a node is known."""

    @property
    def labels(self) -> tuple[str, ...]:
        return (*(f"{name}>" for name in self.further), *(("waits for",) if self.waits else ()))

    def cells(self, row: NodeRow) -> tuple[str, ...]:
        """The cells of a row in the order of `labels`. Unknown is `?`."""
        loads = (percent(row.further.get(name)) for name in self.further)
        return (*loads, *((row.waits or "?",) if self.waits else ()))


def measured_columns(rows: Sequence[NodeRow]) -> MeasuredColumns:
    further = sorted({name for row in rows for name in row.further})
    return MeasuredColumns(tuple(further), any(row.waits for row in rows))


def before_state(cells: Sequence[T], measured: Sequence[T]) -> list[T]:
    """The cells or labels with those of the measured columns before the last one, which is the state."""
    return [*cells[:-1], *measured, cells[-1]]


def state_words(row: NodeRow) -> list[str]:
    words: list[str] = [] if row.state is None or row.unknown else [row.state]
    return [*words, *filter(None, (row.set_apart, row.emptied)), *([f"unknown: {row.unknown}"] if row.unknown else [])]


def bar(load: float | None, length: int = BAR) -> Text:
    """A bar and a number: never color alone."""
    if load is None:
        return Text(f"{'·' * length}      ?", style="dim")
    eighths = round(min(1.0, load) * length * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (_PARTS[part] if part else "")
    style = "red" if load >= HIGH else "yellow" if load >= MIDDLE else "green"
    return Text.assemble((f"{drawn:<{length}}", style), f" {percent(load):>6}")


class FoldedRow(NamedTuple):
    """A row whose cells are folded between words."""

    cells: list[Text]
    height: int
    """Lines."""


def folded_rows(
    labels: Sequence[str], forms: Iterable[Sequence[Sequence[str | Text]]], room: int, console: Console
) -> tuple[list[FoldedRow], list[int] | None]:
    """The rows in the first form whose columns fit into `room` together, and the widths of its columns.

    `forms`: the same rows, from the widest to the narrowest. If not even the last form fits, its longest words are
    broken. The widths are None if it still does not fit; then no cell is folded, and the table is wider than the
    terminal.
    """
    texts: list[list[Text]] = []
    measured: list[tuple[int, int]] = []
    for rows in forms:
        texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in cells] for cells in rows]
        columns = zip(labels, *([cell.plain for cell in cells] for cells in texts), strict=True)
        measured = [_measured(label, cells) for label, *cells in columns]
        if (widths := column_widths(measured, room)) is not None:
            return [_folded(cells, widths, console) for cells in texts], widths
    broken = [(max(len(label), min(word, PART)), line) for label, (word, line) in zip(labels, measured, strict=True)]
    if (widths := column_widths(broken, room)) is not None:
        return [_folded(cells, widths, console) for cells in texts], widths
    return [FoldedRow(cells, 1) for cells in texts], None


def _measured(label: str, cells: Iterable[str]) -> tuple[int, int]:
    """The smallest and the largest useful width of a column. Labels are not folded, nor bars with their numbers."""
    word, line = cell_len(label), cell_len(label)
    for cell in cells:
        length = cell_len(cell)
        is_bar = cell[:1] in _BLOCKS
        word = max(word, length if is_bar else max(map(cell_len, cell.split()), default=0))
        line = max(line, length)
    return word, line


def _folded(cells: Sequence[Text], widths: Sequence[int], console: Console) -> FoldedRow:
    wrapped = [
        [cell] if cell.cell_len <= width else list(cell.wrap(console, width))
        for cell, width in zip(cells, widths, strict=True)
    ]
    return FoldedRow([Text("\n").join(lines) for lines in wrapped], max(map(len, wrapped), default=1))


def sorted_rows(rows: Iterable[NodeRow], by: str, contains: str = "") -> list[NodeRow]:
    """The rows whose node contains a text, sorted.

    `by`: `node`, or a numeric field, which sorts the highest value first.
    """
    selected = [row for row in rows if contains in row.node]
    if by == "node":
        return sorted(selected, key=lambda row: row.node)

    def load(row: NodeRow) -> float:
        value: float | None = getattr(row, by)
        return -1.0 if value is None else value

    return sorted(selected, key=lambda row: (-load(row), row.node))


def summary_line(summary: ClusterSummary) -> str:
    """The figures of the whole cluster."""
    spreads = ", ".join(
        f"{name} {'?' if spread is None else f'{100 * spread:.1f}'} (mean {percent(mean)})"
        for name, spread, mean in (
            ("cpu", summary.spread.cpu, summary.mean.cpu),
            ("memory", summary.spread.memory, summary.mean.memory),
        )
    )
    nodes = max(summary.nodes, summary.expected or 0)
    hot = str(summary.hot) if summary.evaluated_at is not None else "?"
    return f"spread in points: {spreads}   known: {summary.known} of {nodes} nodes   hot: {hot}"


def mode_line(summary: ClusterSummary, limits: LimitsRow | None) -> str:
    """Whether pods are evicted, and the running campaign."""
    why = f" ({limits.why})" if limits is not None and limits.why else ""
    if limits is not None and limits.evictions in ("paused", "closed"):
        return f"evictions: {limits.evictions}{why}"
    campaign = f"   {summary.campaign}" if summary.campaign else ""
    return f"evictions: {summary.evictions or 'unknown, no heartbeat of a binder'}{why}{campaign}"


def move_cells(move: MoveRow) -> Sequence[str]:
    """The cells of a move: time, outcome, pod, its nodes, and the reason with gain, cost and effect."""
    effect = "; ".join(part for part in (move.detail, _effect(move)) if part)
    outcome = move.outcome or "proposed"
    reason = reason_text(move, move.gain_and_cost)
    return (
        time_of_day(move.decided_at),
        f"{outcome} ({move.limit})" if move.limit else outcome,
        f"{move.namespace}/{move.pod}",
        f"{_short(move.node)} → {_short(move.target) or 'any'}",
        f"{reason}; {effect}" if effect else reason,
    )


def reason_text(move: MoveRow | PlannedMove, gain_and_cost: str) -> str:
    """`without a gap: node is hot (6.2 points; 1.25 GiB, 3 d old, ready in 12 s)`."""
    reason = f"without a gap: {move.reason}" if move.without_gap else move.reason
    return f"{reason} ({gain_and_cost})" if gain_and_cost else reason


def planned_lines(plan: PlanRow) -> Iterator[str]:
    """A line for each planned move, and the sentence that sums them up."""
    for move in plan.moves:
        refusal = plan.refusals.get(move.pod_name)
        later = f"not now: {refusal}; " if refusal else "later: " if move.later else ""
        reason = reason_text(move, plan.gains_and_costs.get(move.pod_name, ""))
        yield f"{move.pod_name}  {move.node} → {move.target}  {later}{reason}"
    if plan.sentence:
        yield plan.sentence


def _short(node: str) -> str:
    """The name of a node without its domain."""
    return node.partition(".")[0]


def screen_labels(measured: MeasuredColumns, *, requests: bool) -> list[str]:
    """The labels of the columns of `node_forms`."""
    labels = ("node", "cpu", "memory", *(("cpu req.", "mem. req.") if requests else ()), "pods", "state")
    return before_state(labels, [label.rstrip(">") for label in measured.labels])


def node_forms(
    rows: Sequence[NodeRow], measured: MeasuredColumns, *, requests: bool
) -> Iterator[list[Sequence[str | Text]]]:
    """The rows of nodes in forms from wide to narrow.

    Narrow forms have shorter bars, and names without domains if these stay unique. `requests`: whether they have the
    columns of requests.
    """
    names = [row.node for row in rows]
    short = [_short(name) for name in names]
    short = short if len(set(short)) == len(names) else names
    for shown, length in ((names, BAR), *((short, length) for length in BARS)):
        yield [
            before_state(_bar_cells(name, row, length, requests=requests), measured.cells(row))
            for name, row in zip(shown, rows, strict=True)
        ]


def _bar_cells(name: str, row: NodeRow, length: int, *, requests: bool) -> Sequence[str | Text]:
    """The same as `node_cells`, with both loads as bars before the requests, if these are shown."""
    _, _, cpu_requests, _, memory_requests, pods, state = node_cells(row)
    style = "bold red" if row.state == "hot" else ""
    loads = bar(row.cpu, length), bar(row.memory, length)
    requested = (cpu_requests, memory_requests) if requests else ()
    return name, *loads, *requested, pods, Text(state, style=style)


def _effect(move: MoveRow) -> str:
    placed = f"replacement on {move.placed_on}" if move.placed_on else ""
    if move.reduced is None:
        return placed
    reduced = "load fell as expected" if move.reduced else "load did not fall as expected"
    return f"{placed}, {reduced}" if placed else reduced


def show(view: Changes, to: Console) -> None:
    """Print the plain table of `--once`."""
    if view.connection is not None:
        to.print(Text(view.connection.cluster))
    if view.summary is not None:
        to.print(Text(summary_line(view.summary)))
        to.print(Text(mode_line(view.summary, view.limits)))
    for line in () if view.limits is None else view.limits.configuration:
        to.print(Text(line))
    to.print()
    measured = measured_columns(view.nodes)
    made = table(*before_state(NODE_COLUMNS, measured.labels))
    for row in sorted_rows(view.nodes, "cpu"):
        made.add_row(*before_state(node_cells(row), measured.cells(row)))
    to.print(made)
    for each in () if view.summary is None else view.summary.unknown:
        what = f"{each.count} × {each.what}" if each.count else each.what
        to.print(Text(f"unknown: {what}: {each.why}", style="yellow"))
