"""Output on a terminal: tables, times, durations and amounts."""

import datetime
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import yaml
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from equipoise.cli.options import Output
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.plain_text import safe_json, visible

S = TypeVar("S", bound=msgspec.Struct)

PIPE_WIDTH = 1_000_000
"""Columns where stdout is not a terminal: no line is folded, so that each row of a table is one line."""

_TIME = re.compile(r"(^|_)(at|since|until)$")

GAP = 2
"""Spaces between two columns of a table."""

RESOURCES = ("cpu", "memory")
UNIT = {"cpu": "cores", "memory": "GiB"}
GIB = 2.0**30


def print_result(
    value: S,
    show: Callable[[S, Console], object],
    *,
    output: Output = "text",
    as_json: bool = False,
    watched: bool = False,
) -> None:
    """Writes the value as JSON on one line, as YAML, or as `show` prints it: with colors on a terminal, elsewhere
    without folding lines.

    `as_json`: the option of commands without --output yaml. `watched`: the value is one of several results; in YAML,
    each is a document that is written at once.
    """
    if as_json or output == "json":
        print(json_line(plain(value)))
    elif output == "yaml":
        if watched:
            print("---")
        print(yaml_text(plain(value)), end="")
    else:
        show(value, result_console())
    if watched:
        sys.stdout.flush()


def json_line(value: object) -> str:
    """JSON on one line, of which nothing controls a terminal. Values that JSON does not have are texts."""
    return safe_json(msgspec.json.encode(value, enc_hook=str).decode())


def yaml_text(value: object) -> str:
    """YAML with letters outside ASCII as they are; if a text has control characters, all of these are escaped."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text if visible(text) == text else yaml.safe_dump(value, sort_keys=False, allow_unicode=False)


def plain(value: object, name: str = "") -> Any:
    """The value for programs: snake_case names, as in messages, and times as RFC 3339.

    A field that is not set is omitted, and so is `further` if no further resource is known: most clusters have none.
    `name`: the name of the field; it ends in `at`, `since` or `until` if the value is a time. A time of 0 is unknown.
    """
    if isinstance(value, msgspec.Struct):
        fields = ((field, getattr(value, field)) for field in value.__struct_fields__)
        return {
            field: plain(each, field)
            for field, each in fields
            if each is not msgspec.UNSET and (field, each) != ("further", None)
        }
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each, name) for each in value]
    if isinstance(value, float) and _TIME.search(name):
        return rfc3339(value) if value else None
    return msgspec.to_builtins(value)


def rfc3339(seconds: float) -> str:
    """`2027-01-15T08:00:00.250Z`."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class VisibleConsole(Console):
    """Control characters in text are made visible, and text is no markup: `[/x]` is printed as it is. In a pipe or
    file, no line ends with spaces."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"highlight": False, "markup": False, "emoji": False} | options))

    def on_broken_pipe(self) -> None:
        """Lets the program end as after any other output (`| head`); rich would end it with exit code 1."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        segments = visible_segments(super().render(renderable, options))
        return segments if self.is_terminal else without_line_end_spaces(segments)


def visible_segments(segments: Iterable[Segment]) -> Iterable[Segment]:
    """Segments with `control` move the cursor: rich made them. No text is a link."""
    for segment in segments:
        if segment.control:
            yield segment
            continue
        style = segment.style
        if style is not None and style.link:
            style = style.update_link(None)
        yield Segment(visible(segment.text), style)


def without_line_end_spaces(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The segments without the spaces with which rich fills lines to the width of a table."""
    spaces: list[Segment] = []
    for segment in segments:
        if segment.control:
            yield segment
            continue
        text = re.sub(" +\n", "\n", segment.text)
        if text.startswith("\n"):
            spaces.clear()
        words = text.rstrip(" ")
        if words:
            yield from spaces
            spaces.clear()
            yield Segment(words, segment.style)
        if len(words) < len(text):
            spaces.append(Segment(text[len(words) :], segment.style))
    yield from spaces


def result_console() -> Console:
    """stdout, with colors on a terminal, and unfolded elsewhere."""
    return VisibleConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)


class FittedTable(Table):
    """Never cuts a cell, and never breaks a word in two while there is another way.

    Cells are folded between words, those of the widest column first. Where even the longest words do not fit side by
    side, each row becomes a block with a line per column.
    """

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Text is made visible before it is measured."""
        super().add_row(*map(_visible, cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - self.padding[1] * (len(self.columns) - 1)
        widths = column_widths([_measured(column, console, options) for column in self.columns], room)
        if widths is None:
            yield from self._blocks()
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _blocks(self) -> Iterator[Table | Text]:
        headers = [" ".join(_text(column.header).plain.split()) for column in self.columns]
        rows = zip(*(column.cells for column in self.columns), strict=True)
        first = True
        for cells, row in zip(rows, self.rows, strict=True):
            block = Table.grid("", "", padding=(0, GAP, 0, 0))
            block.columns[0].no_wrap = True
            block.columns[1].overflow = "fold"
            for header, cell in zip(headers, map(_text, cells), strict=True):
                if cell.plain.strip():
                    block.add_row(Text(header, "bold"), cell, style=row.style)
            if not block.row_count:
                continue
            if not first:
                yield Text()
            yield block
            first = False
        if self.caption:
            yield _text(self.caption)


def _visible(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text) and visible(cell.plain) != cell.plain:
        return Text(visible(cell.plain), cell.style)
    return Text(visible(cell)) if isinstance(cell, str) else cell


def table(*columns: str) -> FittedTable:
    """Columns whose names end in `>` are numbers."""
    made = FittedTable(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for column in columns:
        made.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left")
    return made


def _measured(column: Column, console: Console, options: ConsoleOptions) -> tuple[int, int]:
    """The widths of the longest word and of the longest line of a column."""
    unlimited = options.update(max_width=PIPE_WIDTH)
    found = [Measurement.get(console, unlimited, _text(cell)) for cell in (column.header, *column.cells)]
    longest = max((each.maximum for each in found), default=0)
    return (longest if column.no_wrap else max((each.minimum for each in found), default=0)), longest


def column_widths(measured: Sequence[tuple[int, int]], room: int) -> list[int] | None:
    """The width of each column so that all together fit; None if the longest words do not.

    `measured`: the widths of the longest word and of the longest line of each column. The widest columns are narrowed.
    """
    if sum(word for word, _ in measured) > room:
        return None
    widths = [line for _, line in measured]
    while sum(widths) > room:
        # The widest of the columns that are wider than their longest word.
        widest = max(range(len(widths)), key=lambda column: (widths[column] > measured[column][0], widths[column]))
        widths[widest] -= 1
    return widths


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def labelled(label: Text, text: Text, width: int) -> Table:
    """A text beside its label, which has this many columns. On a narrow terminal the text is folded there."""
    line = Table.grid()
    line.add_column(width=width, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(label, text)
    return line


def print_section(to: Console, title: str, content: Table) -> None:
    """A table with its title, after an empty line."""
    to.print()
    to.print(Text(title, style="bold"))
    to.print(content)


def day_and_time(seconds: float) -> str:
    """UTC."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(seconds: float) -> str:
    """UTC."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%H:%M:%S}"


def duration(seconds: float) -> str:
    """47 s, 12 min, 3.5 h, 6.9 d. A negative duration is 0 s: the clock that set the time was ahead of this one."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{max(0.0, seconds):.0f} s"


def count(number: int, noun: str) -> str:
    """1 node, 1,234 nodes."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `a, b and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def percentages(load: Resources) -> str:
    """`cpu 91.0%, memory 56.2%`, and the further resources that are known."""
    further = load.further or {}
    return ", ".join(
        [
            *(f"{resource} {percent(getattr(load, resource))}" for resource in RESOURCES),
            *(f"{name} {percent(further[name])}" for name in sorted(further)),
        ]
    )


def amount(resources: Resources, resource: str, *, digits: int = 2) -> str:
    """Cores, GiB, or an amount of a further resource, without the unit."""
    value = resources.amount(resource)
    if value is None:
        return "?"
    return f"{value / GIB if resource == 'memory' else value:.{digits}f}"


def amounts(resources: Resources) -> str:
    """`0.50 cores, 1.00 GiB`."""
    return ", ".join(f"{amount(resources, resource)} {UNIT[resource]}" for resource in RESOURCES)
