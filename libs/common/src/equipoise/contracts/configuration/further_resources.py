"""The names and the PromQL of resources besides cpu and memory (`load.resources`)."""

import re
from collections.abc import Mapping

WINDOW = "$window"
"""Placeholder for the length of a window."""

MAX_RESOURCES = 16
"""The maximum number of further resources: each costs a few queries in every window."""

RESERVED = ("cpu", "memory", "pods")
"""Names of resources that are always measured or counted."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
QUOTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|\'[^\'\\]*+(?:\\.[^\'\\]*+)*+(?:\'|\\?\Z)', re.DOTALL)
"""Quoted text in PromQL. A quotation that does not end extends to the end of the query."""


_SHIFTED = re.compile(re.escape(f"[{WINDOW}]") + r"\s*(?:offset\b|@)", re.IGNORECASE)
_NUMBER = re.compile(
    r"\s*[-+]?(?:[\d.][\d_.,]*(?:e[-+]?\d+)?\s*[kmgtpe]?i?b?|\.?nan|\.?inf)\s*%?\s*", re.ASCII | re.IGNORECASE
)
"""A number as people write it, with a unit or a percent sign."""


def is_number(promql: str) -> bool:
    """Whether this is a number, and no series with a value for each node."""
    return _NUMBER.fullmatch(promql) is not None


def is_shifted(promql: str) -> bool:
    """Whether `$window` ends at another time than now: the age of such values would not be that of their samples."""
    return _SHIFTED.search(QUOTED.sub('""', promql)) is not None


def range_selectors(promql: str) -> tuple[str, ...]:
    """The selectors to which `$window` is applied, in their order. Their raw samples show how old a value is."""
    quoted: list[str] = []

    def hidden(text: re.Match[str]) -> str:
        quoted.append(text[0])
        return f'"{len(quoted) - 1}"'

    parts = QUOTED.sub(hidden, promql).split(f"[{WINDOW}]")
    selectors = filter(None, map(_selector_at_end, parts[:-1]))
    shown = (re.sub(r'"(\d+)"', lambda number: quoted[int(number[1])], selector) for selector in selectors)
    return tuple(dict.fromkeys(shown))


def _selector_at_end(text: str) -> str:
    """The selector with which a text ends, such as `my_bytes_total{device="eth0"}`; empty if there is none."""
    text = text.rstrip()
    conditions = text.rfind("{") if text.endswith("}") else len(text)
    if conditions < 0:
        return ""
    before = text[:conditions].rstrip()
    begin = len(before)
    while begin > 0 and before[begin - 1].isascii() and (before[begin - 1].isalnum() or before[begin - 1] in "_:"):
        begin -= 1
    return before[begin:] + text[conditions:]


def names_problem(names: Mapping[str, object]) -> str:
    """Why these cannot be the names of further resources. Empty if they can."""
    for name in names:
        if name in RESERVED:
            return f"{name} is always measured: choose another name"
        if _NAME.fullmatch(name) is None:
            return f"{name!r} must begin with a letter and have at most 32 letters, digits, '-' and '_'"
    if len(names) > MAX_RESOURCES:
        return f"at most {MAX_RESOURCES} further resources, not {len(names)}"
    return ""
