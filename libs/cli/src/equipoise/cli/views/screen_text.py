"""Rows of the live view as text: for the screen of `equipoise top`, and for its plain table."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from equipoise.cli.terminal import percent, table, time_of_day
from equipoise.cli.views.rows import Changes, ClusterSummary, LimitsRow, Move, NodeRow

NODE_COLUMNS = ("node", "cpu>", "cpu requested>", "memory>", "memory requested>", "pods>", "state")
BAR = 12
"""Characters of a full bar."""

HIGH, MIDDLE = 0.8, 0.6
"""Loads from which a bar is red or yellow. Thresholds of the strategies are shown as the state."""


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


def state_words(row: NodeRow) -> list[str]:
    words: list[str] = [] if row.state is None or row.unknown else [row.state]
    return [*words, *([row.set_apart] if row.set_apart else []), *([f"unknown: {row.unknown}"] if row.unknown else [])]


def bar(load: float | None) -> Text:
    """A bar and a number: never color alone."""
    if load is None:
        return Text(f"{'·' * BAR}      ?", style="dim")
    eighths = round(min(1.0, load) * BAR * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
    style = "red" if load >= HIGH else "yellow" if load >= MIDDLE else "green"
    return Text.assemble((f"{drawn:<{BAR}}", style), f" {percent(load):>6}")


def sorted_rows(rows: Iterable[NodeRow], by: str, contains: str = "") -> list[NodeRow]:
    """`by`: `node`, or a number of the rows; then the highest first, and unknown ones last."""
    found = [row for row in rows if contains in row.node]
    if by == "node":
        return sorted(found, key=lambda row: row.node)

    def load(row: NodeRow) -> float:
        value: float | None = getattr(row, by)
        return -1.0 if value is None else value

    return sorted(found, key=lambda row: (-load(row), row.node))


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
    """Whether pods are evicted."""
    why = f" ({limits.why})" if limits is not None and limits.why else ""
    if limits is not None and limits.evictions in ("paused", "closed"):
        return f"evictions: {limits.evictions}{why}"
    return f"evictions: {summary.evictions or 'unknown, no heartbeat of a binder'}{why}"


def move_cells(move: Move) -> Sequence[str]:
    """Time, outcome, pod, way, reason and what became of it."""
    became = "; ".join(part for part in (move.detail, _effect(move)) if part)
    outcome = move.outcome or "proposed"
    return (
        time_of_day(move.decided_at),
        f"{outcome} ({move.limit})" if move.limit else outcome,
        f"{move.namespace}/{move.pod}",
        f"{_short(move.node)} → {_short(move.target) or 'any'}",
        f"{move.reason}{f'; {became}' if became else ''}",
    )


def _short(node: str) -> str:
    return node.partition(".")[0]


def _effect(move: Move) -> str:
    placed = f"replacement on {move.placed_on}" if move.placed_on else ""
    if move.reduced is None:
        return placed
    reduced = "load fell as expected" if move.reduced else "load did not fall as expected"
    return f"{placed}, {reduced}" if placed else reduced


def show(view: Changes, to: Console) -> None:
    """The plain table of `--once`."""
    if view.connection is not None:
        to.print(Text(view.connection.cluster))
    if view.summary is not None:
        to.print(Text(summary_line(view.summary)))
        to.print(Text(mode_line(view.summary, view.limits)))
    for line in () if view.limits is None else view.limits.configuration:
        to.print(Text(line))
    to.print()
    made = table(*NODE_COLUMNS)
    for row in sorted_rows(view.nodes, "cpu"):
        made.add_row(*node_cells(row))
    to.print(made)
    for each in () if view.summary is None else view.summary.unknown:
        to.print(Text(f"unknown: {f'{each.count} × ' if each.count else ''}{each.what}: {each.why}", style="yellow"))
