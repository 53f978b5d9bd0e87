"""Reads the values of a document. For a faulty value, reports its path, the value, and what is allowed."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from equipoise.contracts.configuration.shallow_yaml import ShallowLoader


class InvalidConfiguration(ValueError):
    """`faults`: a text for each faulty value, with its path."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Fields:
    """A mapping in the document. `end` finds fields that nothing has read."""

    def __init__(self, value: Any, path: str, faults: list[str]) -> None:
        """`faults`: the list of the whole document, to which this section adds its own. A `value` of None is read as
        {}."""
        self.path = path
        self.faults = faults
        self._known: set[str] = set()
        self._values: Mapping[str, Any] = {}
        if isinstance(value, Mapping):
            self._values = value
        elif value is not None:
            self.faults.append(f"{path or 'the document'}: {show(value)} is not allowed: expected a mapping")

    def place(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def fault(self, name: str, text: str) -> None:
        self.faults.append(f"{self.place(name)}: {text}")

    def wrong(self, name: str, value: object, expected: str) -> None:
        self.fault(name, f"{show(value)} is not allowed: expected {expected}")

    def not_one_of(self, name: str, value: object, allowed: Iterable[str]) -> None:
        text = f"is not allowed: {near(value, allowed)}expected one of {', '.join(allowed)}"
        self.fault(name, f"{show(value)} {text}")

    def value(self, name: str) -> Any:
        """The value as it is in the document; None: it is missing or null."""
        self._known.add(name)
        return self._values.get(name)

    def ignore(self, *names: str) -> None:
        """Fields that are allowed and mean nothing here."""
        self._known.update(names)

    def text(self, name: str, default: str = "", *, allowed: Sequence[str] = ()) -> str:
        """`allowed`: the only possible texts; empty: any."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(name, value, "a text")
        elif allowed and value not in allowed:
            self.not_one_of(name, value, allowed)
        else:
            return value
        return default

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                self.wrong(f"{name}[{index}]", value, "a text")
        return tuple(value for value in values if isinstance(value, str))

    def flag(self, name: str) -> bool:
        """False if it is missing."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong(name, value, "true or false")
        return False

    def integer(self, name: str, default: int, *, lowest: int, highest: int | None = None) -> int:
        found = self.optional_integer(name, lowest=lowest, highest=highest)
        return default if found is None else found

    def optional_integer(self, name: str, *, lowest: int, highest: int | None = None) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        within = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(name, value, f"a whole number, {within}")
        elif value < lowest or (highest is not None and value > highest):
            self.wrong(name, value, within)
        else:
            return value
        return None

    def section(self, name: str) -> "Fields":
        return Fields(self.value(name), self.place(name), self.faults)

    def sections(self, name: str) -> "list[Fields]":
        return [
            Fields(value, self.place(f"{name}[{index}]"), self.faults) for index, value in enumerate(self._list(name))
        ]

    def end(self) -> None:
        """Reports unknown fields, after all fields were read."""
        for name in self._values:
            if name not in self._known:
                known = sorted(self._known)
                self.fault(name, f"there is no such field: {near(name, known)}known are {', '.join(known)}")

    def _list(self, name: str) -> Sequence[Any]:
        value = self.value(name)
        if value is None or isinstance(value, list | tuple):
            return value or ()
        self.wrong(name, value, "a list")
        return ()


def near(name: object, known: Iterable[str]) -> str:
    """A question that names the most similar one; empty: none is."""
    by_letters = {each.lower(): each for each in known}
    found = difflib.get_close_matches(str(name).lower(), by_letters, n=1)
    return f"did you mean {by_letters[found[0]]}? " if found else ""


def show(value: object) -> str:
    """A value as it is written in JSON, shortened."""
    try:
        text = json.dumps(value, default=str)
    except (TypeError, ValueError):  # a date as a key, or an alias of a list within itself
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST = 80


def read_yaml(text: str) -> Any:
    """The document as dicts, lists and scalars. Raises InvalidConfiguration; also for keys that are given twice."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise InvalidConfiguration([f"the document is no YAML: {' '.join(str(error).split())}"]) from error


class _Loader(ShallowLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)
