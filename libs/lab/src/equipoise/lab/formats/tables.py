"""Reads and writes the tables of a trace folder row by row: gzip-compressed CSV files with a header."""

import csv
import gzip
import io
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TextIO

import msgspec
import numpy as np

from equipoise.contracts.bounds import MAX_BYTES
from equipoise.lab.model.trace import Array


class TraceError(ValueError):
    """A trace folder is invalid. The message has the file, the line and the fix."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table."""

    place: str
    """File and line number, for error messages."""

    cells: Mapping[str, str]
    """The values by column; empty for missing optional columns."""

    def error(self, why: str) -> TraceError:
        return TraceError(f"{self.place}: {why}")

    def name(self, column: str) -> str:
        text = self.cells[column]
        if not is_valid_name(text):
            raise self.error(f"{column} is {text!r}; a name must be printable, not empty, and without slashes")
        return text

    def new_name(self, column: str, seen: set[str], *, within: str = "") -> str:
        """A name that must be unique in its column, or in its column within a namespace."""
        name = self.name(column)
        if (full_name := f"{within}/{name}") in seen:
            raise self.error(f"a second {column} {name!r}; keep one row")
        seen.add(full_name)
        return name

    def one_of(self, column: str, names: Set[str], table: str) -> str:
        if (name := self.cells[column]) not in names:
            raise self.error(f"{column} {name!r} is not in {table}{SUFFIX}; add a row there, or remove this one")
        return name

    def integer(self, column: str, *, least: int = 0) -> int:
        text = self.cells[column]
        digits = text.removeprefix("-") if least < 0 else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS and int(text) >= least):
            raise self.error(f"{column} is {text!r}; write an integer of {least} or more (at most {MAX_DIGITS} digits)")
        return int(text)


class CurveTable(msgspec.Struct, frozen=True, kw_only=True):
    """A curve for each name, with a value per step; NaN for a missing value."""

    path: Path
    steps: int
    rows: Mapping[str, Array]


MAX_ROW = 4 * 2**20
"""The largest number of characters of a row, which is enough for half a million numbers.

A gzip file of a few kilobytes may hold a line that fills the memory.
"""

MAX_DIGITS = 18
"""The largest number of digits of an integer. Larger integers have no meaning in any column."""

SUFFIX = ".csv.gz"
PLAIN_SUFFIX = ".csv"


def is_valid_name(text: str) -> bool:
    """Whether a text is a valid name, without line breaks and slashes. Slashes join namespace, kind and name."""
    return bool(text) and text.isprintable() and "/" not in text


def table_of(file: str) -> str:
    """The name of the table in a file, which may be compressed."""
    return file.removesuffix(SUFFIX).removesuffix(PLAIN_SUFFIX)


def path_of(folder: Path, table: str) -> Path:
    """The compressed file of a table; the uncompressed one if only that exists."""
    compressed = folder / f"{table}{SUFFIX}"
    plain = folder / f"{table}{PLAIN_SUFFIX}"
    return plain if plain.exists() and not compressed.exists() else compressed


class RowLines:
    """The lines of a table for `csv.reader`, which reads several of them if a cell contains line breaks.

    Raises csv.Error before a row of more than `MAX_ROW` characters is read.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._left = MAX_ROW
        self._row = 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise csv.Error(f"row {self._row} has more than {MAX_ROW} characters")
        if not line:
            raise StopIteration
        return line

    def next_row(self) -> None:
        """Begin the next row, after `csv.reader` has returned one."""
        self._left = MAX_ROW
        self._row += 1


def read_lines(path: Path, *, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
    """The lines of a table, the header first, each with its position for error messages.

    All have equally many cells. A file whose name ends in `.gz` is decompressed. Raises TraceError if the file is
    missing, empty, truncated or no CSV.
    """
    width = None
    try:
        with _opened(path) as file:
            lines = RowLines(file)
            reader = csv.reader(lines, strict=True, delimiter=delimiter)
            for cells in reader:
                lines.next_row()
                place = f"{path}, line {reader.line_num}"
                if not cells:
                    continue
                width = len(cells) if width is None else width
                if len(cells) != width:
                    raise TraceError(f"{place}: {len(cells)} cells, but the header has {width}; make them equal")
                yield place, cells
    except FileNotFoundError as error:
        raise TraceError(f"{path} is missing; docs/traces.md lists the files of a trace folder") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        kind = "gzip-compressed CSV" if path.suffix == ".gz" else "CSV"
        raise TraceError(f"{path} is not a complete {kind} file ({error}); write it again") from error
    if width is None:
        raise TraceError(f"{path}, line 1: the header is missing; write one, even without rows")


def _opened(path: Path) -> TextIO:
    """The opened file, without a byte order mark. Raises OSError."""
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def read_rows(
    folder: Path,
    table: str,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    ignore_others: bool = False,
    other_names: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """The rows of a table with these columns in any order. `ignore_others`: whether other columns are ignored.

    `other_names`: the column for each name in the file that differs from the name of its column.
    """
    body = read_lines(path_of(folder, table))
    place, header = next(body)
    header = [(other_names or {}).get(name, name) for name in header]
    if missing := [column for column in columns if column not in header]:
        raise TraceError(f"{place}: missing column {', '.join(missing)}; the header is {','.join(header)}")
    unknown = [column for column in header if column not in columns and column not in optional]
    if len(set(header)) != len(header) or (unknown and not ignore_others):
        raise TraceError(
            f"{place}: unknown or duplicate columns in {','.join(header)}; known are {', '.join((*columns, *optional))}"
        )
    absent = {column: "" for column in optional if column not in header}
    for place, cells in body:
        yield Row(place=place, cells=absent | dict(zip(header, cells, strict=True)))


def read_curves(
    folder: Path, table: str, key: str, references: Mapping[str, str], *, known: Set[str] | None = None
) -> CurveTable:
    """The rows of `references` in a table with columns `key`, t0, t1, …; only these are kept in memory.

    `references`: the key of each needed row, with the position that refers to it. `known`: all permitted keys; None:
    any.
    """
    path = path_of(folder, table)
    body = read_lines(path)
    place, header = next(body)
    if len(header) < 2 or header != [key, *(f"t{step}" for step in range(len(header) - 1))]:
        raise TraceError(f"{place}: the columns must be {key},t0,t1,… in order; found {','.join(header)[:80]}")
    rows: dict[str, Array] = {}
    for place, (name, *cells) in body:
        if known is not None and name not in known:
            raise TraceError(f"{place}: an unknown {key} {name!r}; add it to its table, or remove this row")
        if name in rows:
            raise TraceError(f"{place}: a second row of {name!r}; keep one")
        if name in references:
            rows[name] = usage_values(place, header[1:], cells)
    for name, reference in references.items():
        if name not in rows:
            raise TraceError(
                f"{reference}: {name!r} has no row in {path}; add one, with empty cells if nothing was measured"
            )
    return CurveTable(path=path, steps=len(header) - 1, rows=rows)


def usage_values(place: str, columns: Sequence[str], cells: Sequence[str]) -> Array:
    """Usage values; NaN for empty cells only. Raises TraceError with the column."""
    try:
        values = np.array([float(cell) if cell else math.nan for cell in cells], dtype=np.float64)
    except ValueError:
        values = np.full(len(cells), math.inf)  # so that the wrong cell is reported below
    if int(np.isnan(values).sum()) != cells.count("") or (values > MAX_BYTES).any() or (values < 0.0).any():
        column, cell = next(pair for pair in zip(columns, cells, strict=True) if not _is_usage(pair[1]))
        raise TraceError(
            f"{place}, {column}: {cell!r} is not a usage value; write a number from 0 to {MAX_BYTES:.0e}, "
            "or leave the cell empty if nothing was measured"
        )
    return values


def _is_usage(cell: str) -> bool:
    try:
        return not cell or 0.0 <= float(cell) <= MAX_BYTES
    except ValueError:
        return False


def write_table(path: Path, header: Sequence[str], body: Iterable[Sequence[str]]) -> None:
    """Write a table row by row and atomically. The same rows give the same bytes."""
    unfinished = path.with_name(f"{path.name}.part")
    with (
        unfinished.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(body)
    os.replace(unfinished, path)
