"""Reads PromQL as far as the tests need it: metrics and the matchers of their labels."""

import re
from collections.abc import Iterator

import msgspec

_SELECTOR = re.compile(r"\b(equipoise[a-z0-9_:]*)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    """Label, operator, value."""


def selectors(expression: str) -> Iterator[Selector]:
    """Of our own metrics. In an alert, every other word is a function, a label or a keyword."""
    for found in _SELECTOR.finditer(expression):
        yield Selector(metric=found[1], matchers=tuple(_MATCHER.findall(found[2] or "")))
