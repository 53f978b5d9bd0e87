"""Reads a configuration as YAML, and rejects what is easily written by mistake.

Scalars are those of YAML 1.2: `off` and `yes` are text, `1:30` and `0o17` are not numbers. Repeated keys (the last one
would be used), aliases (a few lines can mean gigabytes), tags, and numbers that are not finite are rejected.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from equipoise.contracts.configuration.shallow_yaml import ShallowLoader

LIMIT = 2**20
"""The most bytes of a document, and of a ConfigMap."""


class UnreadableYaml(Exception):
    """The text cannot be read. The message states where and why."""


def read_yaml(text: str) -> Any:
    """The document as dicts, lists and scalars; None for an empty one. Raises UnreadableYaml."""
    return _read(text, lambda: yaml.load(text, Loader=_Loader))  # noqa: S506  a SafeLoader


def read_yaml_documents(text: str) -> list[Any]:
    """The documents of a stream. Raises UnreadableYaml."""
    documents: list[Any] = _read(text, lambda: list(yaml.load_all(text, Loader=_Loader)))
    return documents


def _read(text: str, load: Callable[[], Any]) -> Any:
    size = len(text.encode(errors="replace"))
    if size > LIMIT:
        raise UnreadableYaml(f"the document has {size} bytes, more than {LIMIT}")
    try:
        return load()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableYaml(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise UnreadableYaml(" ".join(str(error).split())) from error
    except RecursionError:
        raise UnreadableYaml("the document is nested too deeply") from None


class _Loader(ShallowLoader):
    """YAML 1.2 core scalars, no aliases, no repeated keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's own name

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _wrong(key_node, f"the key {key!r} is no text: write it in quotes")
            if key in values:
                raise _wrong(key_node, f"the key {key!r} is given twice")
            values[key] = self.construct_object(value_node, deep=True)
        return values

    def text(self, node: yaml.ScalarNode) -> str:
        """The text of a scalar. The two escapes of a surrogate pair are one character, as in JSON."""
        value = str(node.value)
        try:
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise _wrong(node, "the text has half of a surrogate pair, which is no character") from None

    def integer(self, node: yaml.ScalarNode) -> int:
        try:
            return int(node.value)
        except ValueError as error:  # thousands of digits
            raise _wrong(node, str(error)) from None

    def number(self, node: yaml.ScalarNode) -> float:
        value = float(node.value)
        if not math.isfinite(value):
            raise _wrong(node, f"the number {node.value} is too large")
        return value

    def foreign(self, node: yaml.Node) -> None:
        raise _wrong(node, f"the tag {node.tag} is not allowed")


def _wrong(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SCALARS = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    "int": (_INTEGER, list("-+0123456789")),
    "float": (_NUMBER, list("-+.0123456789")),
}
for _name, (_pattern, _first_characters) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, _first_characters)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.text)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor(None, _Loader.foreign)
