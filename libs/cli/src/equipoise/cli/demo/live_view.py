"""The live view of a demo: nodes as cells colored by load, the spread over time, and evictions with their reason."""

import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from equipoise.cli.demo.figures import deviation, spread

_BLOCKS = "▁▂▃▄▅▆▇█"
_WHITE, _BLACK = "rgb(255,255,255)", "rgb(0,0,0)"
_COLORS = (
    (15, "rgb(24,62,120)", _WHITE),
    (30, "rgb(33,102,172)", _WHITE),
    (40, "rgb(67,147,195)", _BLACK),
    (50, "rgb(90,174,97)", _BLACK),
    (60, "rgb(166,190,60)", _BLACK),
    (70, "rgb(230,170,40)", _BLACK),
    (80, "rgb(230,110,30)", _BLACK),
    (90, "rgb(214,60,40)", _WHITE),
    (math.inf, "rgb(165,0,38)", _WHITE),
)
"""The load below which a cell has a color, this color, and the color of the digits (contrast at least 4.5)."""

_CELLS_PER_ROW = 10


def cell_style(load: float) -> str:
    """The style of a cell, from blue (idle) over green to red (full)."""
    return next(f"bold {digits} on {color}" for limit, color, digits in _COLORS if load < limit)


def heat_map(loads: Mapping[str, float]) -> Table:
    """A cell per node, in the given order, with its CPU load in percent."""
    table = Table.grid(padding=(0, 0))
    nodes = list(loads)
    for begin in range(0, len(nodes), _CELLS_PER_ROW):
        row = [(loads[node], cell_style(loads[node])) for node in nodes[begin : begin + _CELLS_PER_ROW]]
        table.add_row(*(Text(f" {load:3.0f} ", style=style) for load, style in row))
        table.add_row(*(Text("     ", style=style) for _, style in row))
    return table


def spark_line(values: Sequence[float], width: int, top: float) -> str:
    """The last `width` values as blocks, scaled to `top`."""
    return "".join(
        _BLOCKS[min(len(_BLOCKS) - 1, int(max(0.0, value) / top * len(_BLOCKS)))] for value in values[-width:]
    )


def outcome_text(counts: Mapping[str, int]) -> str:
    """The text about outcomes, for example `proposed evictions: 6 evicted, 2 rejected (limit)`."""
    words = {name: re.sub(r"^rejected_(.*)", r"rejected (\1)", name).replace("_", " ") for name in counts}
    outcomes = ", ".join(f"{count} {words[name]}" for name, count in sorted(counts.items()))
    return f"proposed evictions: {outcomes or 'none yet'}"


class LiveView:
    """The state of a run; `render` may be called at any time."""

    def __init__(self, title: str, seconds: float) -> None:
        self._title = title
        self.seconds = seconds
        """Seconds between the first and the second measurement."""

        self._spreads: deque[float] = deque(maxlen=2_000)
        self._lines: deque[Text] = deque(maxlen=9)
        self.before: Mapping[str, float] = {}
        self.now: Mapping[str, float] = {}
        self.phase = ""
        self.elapsed = 0.0
        self.hour = 0.0
        self.counts: dict[str, int] = {}
        self.batch = ""
        """What batch pods do now; empty without batch pods."""

    def add_loads(self, loads: Mapping[str, float]) -> None:
        self.now = loads
        if loads:
            self._spreads.append(spread(loads))

    def add_line(self, text: str, style: str = "") -> None:
        self._lines.append(Text(text, style=style, overflow="ellipsis", no_wrap=True))

    def line(self) -> str:
        """The view in one line."""
        clock = f"{int(self.hour):02d}:{int(self.hour % 1 * 60):02d}"
        return (
            f"{self.phase}, {clock} in the trace: hottest node {max(self.now.values()):.0f} %, "
            f"spread of the CPU load {spread(self.now):.0f} points; {self._state()}"
        )

    def _state(self) -> str:
        return outcome_text(self.counts) + (f"; {self.batch}" if self.batch else "")

    def render(self) -> RenderableType:
        maps = Table.grid(padding=(0, 4))
        maps.add_row(Text("before Equipoise", style="dim"), Text("now", style="bold"))
        maps.add_row(heat_map(self.before), heat_map(self.now))
        maps.add_row(self._caption(self.before), self._caption(self.now))
        done = min(1.0, self.elapsed / self.seconds) if self.seconds else 0.0
        bar = "━" * round(done * 40)
        clock = f"{int(self.hour):02d}:{int(self.hour % 1 * 60):02d}"
        head = Text.assemble(
            (f"{self.phase}  ", "bold"),
            (bar, "green"),
            ("─" * (40 - len(bar)), "dim"),
            f"  {clock} in the trace",
        )
        history = list(self._spreads)
        step = max(1, len(history) // 60)
        spark = Text.assemble(
            ("spread  ", "dim"),
            (spark_line(history[::step], 60, max([*history, 1.0])), "cyan"),
            ("  points of CPU load, max − min", "dim"),
        )
        counts = Text(self._state(), style="dim")
        body = Group(head, Text(), maps, Text(), spark, counts, Text(), *self._lines)
        return Panel(body, title=self._title, border_style="blue", padding=(1, 2))

    @staticmethod
    def _caption(loads: Mapping[str, float]) -> Text:
        if not loads:
            return Text()
        return Text(
            f"spread {spread(loads):.0f}   std {deviation(loads):.1f}   hottest {max(loads.values()):.0f} %",
            style="dim",
        )


class Screen:
    """Shows the live view on a terminal. Elsewhere it prints a line every 15 seconds on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._last_line = 0.0

    def print(self, text: str | Table) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=isinstance(text, str))

    @asynccontextmanager
    async def showing(self, view: LiveView) -> AsyncIterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with Live(view.render(), console=self._console, refresh_per_second=4, transient=False) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def refresh(self, view: LiveView) -> None:
        if self._live is not None:
            self._live.update(view.render())
        elif view.now and time.monotonic() - self._last_line > 15:
            self._last_line = time.monotonic()
            self.print(view.line())
