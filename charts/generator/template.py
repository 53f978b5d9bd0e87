"""Objects whose values are partly template expressions, and their text as a template of Helm.

A parsed object consists of mappings, lists and scalars. A template also contains the types of this module. The root of
the values is always `$`, so that an expression means the same inside of `range` and `with`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Node = Any
"""A scalar, a list, a mapping, or one of the types below."""

STEP = "  "


@dataclass(frozen=True)
class Text:
    """A string that contains template actions; written as it is, so that it must be valid YAML after rendering."""

    text: str


@dataclass(frozen=True)
class Yaml:
    """A mapping or list that an expression renders as YAML without indentation."""

    expression: str


@dataclass(frozen=True)
class When:
    """A value of a mapping, an item of a list or a whole object that is there only under a condition."""

    condition: str
    value: Node

    @property
    def opening(self) -> str:
        return f"if {self.condition}"


@dataclass(frozen=True)
class Each:
    """An object, or an item of a list, that is repeated for each item of a list of values: `.` is the item."""

    items: str
    value: Node

    @property
    def opening(self) -> str:
        return f"range {self.items}"


@dataclass(frozen=True)
class More:
    """Entries of a mapping (its key is any string, which is not written) or items of a list; nothing if empty."""

    expression: str


def render(node: Node, depth: int = 0) -> str:
    """The template of one object, with a line feed at the end."""
    return "".join(f"{line}\n" for line in _lines(node, depth))


def _lines(node: Node, depth: int) -> Iterator[str]:
    match node:
        case When() | Each():
            yield f"{STEP * depth}{{{{- {node.opening} }}}}"
            yield from _lines(node.value, depth)
            yield f"{STEP * depth}{{{{- end }}}}"
        case Mapping():
            for key, value in node.items():
                yield from _entry(key, value, depth)
        case list():
            for item in node:
                yield from _item(item, depth)
        case _:
            raise TypeError(f"not an object or a list: {node!r}")


def _entry(key: str, value: Node, depth: int) -> Iterator[str]:
    pad = STEP * depth
    match value:
        case When():
            yield f"{pad}{{{{- {value.opening} }}}}"
            yield from _entry(key, value.value, depth)
            yield f"{pad}{{{{- end }}}}"
        case More(expression):
            yield _more(expression, depth)
        case Yaml(expression):
            yield f"{pad}{key}: {{{{- {expression} | nindent {len(STEP) * (depth + 1)} }}}}"
        case Mapping() | list() if value:
            yield f"{pad}{key}:"
            yield from _lines(value, depth + 1)
        case _:
            yield f"{pad}{_scalar(key)}: {_scalar(value)}"


def _item(item: Node, depth: int) -> Iterator[str]:
    pad = STEP * depth
    match item:
        case When() | Each():
            yield f"{pad}{{{{- {item.opening} }}}}"
            yield from _item(item.value, depth)
            yield f"{pad}{{{{- end }}}}"
        case More(expression):
            yield _more(expression, depth)
        case Mapping() | list() if item:
            first, *others = _lines(item, depth + 1)
            if first.lstrip().startswith("{{"):
                raise ValueError(f"the first entry of an item must be unconditional: {item!r}")
            yield f"{pad}- {first.lstrip()}"
            yield from others
        case _:
            yield f"{pad}- {_scalar(item)}"


def _more(expression: str, depth: int) -> str:
    return f"{STEP * depth}{{{{- with {expression} }}}}{{{{- toYaml . | nindent {len(STEP) * depth} }}}}{{{{- end }}}}"


def _scalar(value: Node) -> str:
    if isinstance(value, Text):
        return value.text
    if isinstance(value, str):
        if "{{" in value:
            raise ValueError(f"not a template, but contains {{{{: {value!r}")
        if "\n" in value or value != value.strip():
            return json.dumps(value)
    if isinstance(value, Mapping | Sequence) and value and not isinstance(value, str):
        raise TypeError(f"not a scalar: {value!r}")
    return yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True).removesuffix("...\n").strip()
