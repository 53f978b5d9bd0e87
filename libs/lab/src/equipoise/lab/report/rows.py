"""A table of text, for terminals and pages."""

import msgspec
from rich.table import Table


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """A table of text."""

    title: str
    heads: tuple[str, ...]
    """The heads of the columns, with ` · ` where a terminal breaks the line."""

    names: int
    """The number of columns with names, which come first; the others have numbers."""

    rows: tuple[tuple[str, ...], ...]
    ours: frozenset[int] = frozenset()
    """Rows that are highlighted."""


def as_table(rows: Rows, kind: type[Table] = Table) -> Table:
    """The table for terminals."""
    shown = kind(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for number, head in enumerate(rows.heads):
        shown.add_column(
            head.replace(" · ", "\n"), justify="left" if number < rows.names else "right", no_wrap=number < rows.names
        )
    for number, row in enumerate(rows.rows):
        shown.add_row(*row, style="bold green" if number in rows.ours else "")
    return shown
