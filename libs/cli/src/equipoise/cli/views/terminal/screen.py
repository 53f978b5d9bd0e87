"""The screen of `equipoise top`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import VerticalScroll
from textual.filter import LineFilter
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from equipoise.binder.decisions.status import allowed_text, rule_text
from equipoise.cli.terminal import time_of_day, visible_segments
from equipoise.cli.views.explanations import Explained, Kind
from equipoise.cli.views.rows import Changes
from equipoise.cli.views.state import LiveState
from equipoise.cli.views.terminal.screen_text import (
    folded_rows,
    measured_columns,
    mode_line,
    move_cells,
    node_forms,
    planned_lines,
    screen_labels,
    sorted_rows,
    summary_line,
)

Run = Callable[[Callable[[], object]], Awaitable[None]]
"""A function that keeps the state up to date, and calls its argument each second."""

Explain = Callable[[Kind, str], Awaitable[Explained]]

MAX_ROWS = 300
"""The largest number of nodes in the table. In a larger cluster these are the first ones in the chosen order."""

MAX_MOVES = 100

WIDE = 100
"""Columns of a terminal from which nodes have requests beside pressure and further resources."""


class VisibleText(LineFilter):
    """Text of others is only text, in every widget."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return list(visible_segments(segments))


_VISIBLE = VisibleText()


class ExplanationScreen(ModalScreen[None]):
    """A screen with the output of `equipoise explain`."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss", "Close")]

    def __init__(self, kind: Kind, name: str, explain: Explain) -> None:
        super().__init__()
        self._subject: tuple[Kind, str] = (kind, name)
        self._explain = explain

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet"):
            yield Static(Text(" ".join(self._subject), style="bold"))
            yield Static(Text("reading …", style="dim"), id="explanation")
        yield Footer()

    async def on_mount(self) -> None:
        self.run_worker(self._show())

    async def _show(self) -> None:
        found = await self._explain(*self._subject)
        text = Text.from_ansi(found.text) if found.text else Text(found.problem, style="yellow")
        self.query_one("#explanation", Static).update(text)


class TopApp(App[None]):
    """The screen, with tabs for nodes, for moves, for plan and limits, and for what is unknown."""

    TITLE = "equipoise top"
    CSS = """
    #head { height: auto; padding: 0 1; background: $panel; }
    TabbedContent, TabPane, DataTable { height: 1fr; }
    TabPane { padding: 0; }
    #filter { display: none; }
    #filter.shown { display: block; }
    ExplanationScreen { align: center middle; }
    #sheet { width: 94%; height: 90%; border: round $accent; background: $surface; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("c", "sort('cpu')", "CPU"),
        Binding("m", "sort('memory')", "Memory"),
        Binding("r", "sort('cpu_requests')", "Requests"),
        Binding("n", "sort('node')", "Name"),
        Binding("slash", "filter", "Filter"),
        Binding("1", "tab('nodes')", "Nodes"),
        Binding("2", "tab('moves')", "Moves"),
        Binding("3", "tab('limits')", "Plan, limits"),
        Binding("4", "tab('unknown')", "Unknown"),
    ]

    def __init__(self, state: LiveState, run: Run, explain: Explain) -> None:
        super().__init__()
        self.failure: Exception | None = None
        """The error that ended the view."""

        self._state, self._run_feed, self._explain = state, run, explain
        self._sort, self._filter = "cpu", ""

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Input(placeholder="name contains …", id="filter")
        with TabbedContent(id="tabs"):
            with TabPane("Nodes", id="nodes"):
                yield DataTable(id="node-table", cursor_type="row", zebra_stripes=True)
            with TabPane("Moves", id="moves"):
                yield DataTable(id="move-table", cursor_type="row", zebra_stripes=True)
            with TabPane("Plan and limits", id="limits"), VerticalScroll():
                yield Static(id="limit-text")
            with TabPane("Unknown", id="unknown"), VerticalScroll():
                yield Static(id="unknown-text")
        yield Footer()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), _VISIBLE]

    def on_mount(self) -> None:
        self._table("node-table").focus()
        self._table("move-table").add_columns("time", "outcome", "pod", "move", "reason")
        self.run_worker(self._feed())

    async def _feed(self) -> None:
        try:
            await self._run_feed(self.refresh_view)
        except Exception as error:
            self.failure = error
            self.exit()

    def _table(self, name: str) -> "DataTable[str | Text]":
        return self.query_one(f"#{name}", DataTable)

    def on_resize(self) -> None:
        if self._table("move-table").columns:
            self.call_after_refresh(self.show_view)  # the size is the new one only then

    def refresh_view(self) -> None:
        """Show the present state if it has changed."""
        if self._state.take_changes() is not None:
            self.show_view()

    def show_view(self) -> None:
        view = self._state.everything()
        self._show_head(view)
        rows = sorted_rows(view.nodes, self._sort, self._filter)[:MAX_ROWS]
        measured = measured_columns(view.nodes)
        requests = not measured.labels or self.size.width >= WIDE
        self._set_node_columns(screen_labels(measured, requests=requests))
        self._fill("node-table", [row.node for row in rows], node_forms(rows, measured, requests=requests))
        moves = sorted(view.moves, key=lambda move: -move.decided_at)[:MAX_MOVES]
        names = [f"{move.namespace}/{move.pod} {move.id}" for move in moves]
        self._fill("move-table", names, [[move_cells(move) for move in moves]])
        self.query_one("#limit-text", Static).update(_limits(view))
        self.query_one("#unknown-text", Static).update(_unknown(view))

    def _show_head(self, view: Changes) -> None:
        lines = []
        if view.connection is not None:
            problem = f"   {view.connection.problem}" if view.connection.problem else ""
            lines.append(Text.assemble((view.connection.cluster, "bold"), (problem, "bold yellow")))
        if view.summary is not None:
            shown = f"   first {MAX_ROWS} rows, / filters" if len(view.nodes) > MAX_ROWS else ""
            lines.append(Text(summary_line(view.summary)))
            lines.append(Text(f"{mode_line(view.summary, view.limits)}   sorted by {self._sort}{shown}", style="dim"))
        self.query_one("#head", Static).update(Text("\n").join(lines))

    def _set_node_columns(self, labels: Sequence[str]) -> None:
        """Replace the columns if others are shown now."""
        table = self._table("node-table")
        if [str(column.label) for column in table.ordered_columns] != labels:
            table.clear(columns=True)
            table.add_columns(*labels)

    def _fill(self, name: str, keys: Sequence[str], forms: Iterable[Sequence[Sequence[str | Text]]]) -> None:
        """Replace the rows of a table. The cursor stays on its row, and the scroll position is kept.

        `forms`: see `folded_rows`.
        """
        table = self._table(name)
        key = ""
        if table.row_count:
            key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value or ""
        offset = table.scroll_offset
        table.clear()
        columns = table.ordered_columns
        room = self.size.width - table.styles.scrollbar_size_vertical - 2 * table.cell_padding * len(columns)
        folded, widths = folded_rows([str(column.label) for column in columns], forms, room, self.console)
        for column, width in zip(columns, widths or [0] * len(columns), strict=True):
            column.width, column.auto_width = width, widths is None
        for row, (cells, height) in zip(keys, folded, strict=True):
            table.add_row(*cells, height=height, key=row)
        if key and key in table.rows:
            table.move_cursor(row=table.get_row_index(key), scroll=False)
        table.scroll_to(offset.x, offset.y, animate=False)

    def action_sort(self, by: str) -> None:
        self._sort = by
        self.show_view()

    def action_tab(self, name: str) -> None:
        self.query_one("#tabs", TabbedContent).active = name
        if name in ("nodes", "moves"):
            self._table(f"{name.removesuffix('s')}-table").focus()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self.show_view()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not event.value:
            event.input.remove_class("shown")
        self._table("node-table").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        key = event.row_key.value or ""
        is_node = event.data_table.id == "node-table"
        self.push_screen(ExplanationScreen("node" if is_node else "eviction", key.split(" ")[0], self._explain))


def _limits(view: Changes) -> Text:
    lines: list[Text] = []
    limits, plan = view.limits, view.plan
    lines.append(Text("Plan", style="bold"))
    if plan is None:
        lines.append(Text("requesting a plan", style="dim"))
    else:
        if plan.problem:
            lines.append(Text(f"unknown: {plan.problem}", style="yellow"))
        lines += map(Text, planned_lines(plan))
        lines += [Text(f"{strategy}: {why}", style="yellow") for strategy, why in plan.why.items()]
    lines += [Text(""), Text("Limits in use", style="bold")]
    if limits is None:
        lines.append(Text("reading the eviction ledger", style="dim"))
    elif limits.problem:
        lines.append(Text(f"unknown: {limits.problem}", style="yellow"))
    else:
        lines.append(Text(f"{limits.last_day} evictions, {limits.dry_runs_last_day} dry runs in 24 h"))
        lines += [Text(line) for line in limits.configuration]
        in_half = limits.halved_until is not None
        for each in limits.usage:
            window = f" in {each.window}" if each.window else ""
            rule = rule_text(each, in_half=in_half)
            allowed = f"{allowed_text(each)} ({rule})" if rule else allowed_text(each)
            free = "" if each.free_at is None else f", free again at {time_of_day(each.free_at)}"
            lines.append(Text(f"{each.limit}  {each.scope}  {each.counted} of {allowed}{window}{free}"))
    return Text("\n").join(lines)


def _unknown(view: Changes) -> Text:
    unknown = view.summary.unknown if view.summary is not None else []
    if not unknown:
        return Text("Nothing: all loads, limits and modes are known.", style="green")
    return Text("\n").join(
        Text.assemble(
            (f"{each.count} × {each.what}" if each.count else each.what, "bold"),
            f"\n  {each.why}",
            f"\n  {', '.join(each.nodes)}" if each.nodes else "",
        )
        for each in unknown
    )
