"""Errors of the configuration, with the path, the value, and what is allowed."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

_AT = re.compile(r"(?P<what>.*) - at (?:`key` in )?`\$(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_LONGEST = 80


MOVED = {
    "annotator.hints.enabled": "placement.hints, for the annotator and the scorer",
    "scorer.hints.enabled": "placement.hints, for the annotator and the scorer",
}
"""Settings of earlier versions, and the settings that replace them."""

FURTHER_THRESHOLDS = {"thresholds.high": "high", "thresholds.low": "low"}
"""Sections with thresholds of some resources only, and the name of such a threshold of a further resource."""


class ConfigurationError(Exception):
    """The configuration cannot be used. The message has a line per fault, with its path, the value, and what is
    allowed."""


def decode_value(kind: type[Any], value: object) -> Any:
    """Decodes a Duration, as the dec_hook of msgspec."""
    if issubclass(kind, Duration):
        return kind.parse(value)
    raise NotImplementedError(kind)


def encode_value(value: object) -> str:
    """Encodes a Duration, as the enc_hook of msgspec."""
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(type(value))


def convert(value: Any, kind: type[Any], where: str) -> Any:
    """`value` converted to `kind`. Raises ConfigurationError with the path, which begins at `where`."""
    try:
        return msgspec.convert(value, kind, dec_hook=decode_value)
    except msgspec.ValidationError as error:
        raise ConfigurationError(explain(str(error), value, kind, where)) from None
    except RecursionError:
        raise ConfigurationError(f"{where}: nested too deeply") from None


def explain(message: str, document: Any, kind: Any, where: str) -> str:
    """An error message of msgspec, translated into terms of the configuration."""
    match = _AT.fullmatch(message)
    what, path = (match["what"], match["path"]) if match else (message, "")
    value, types, parents, last, setting = document, [kind], [kind], "", where
    for step in _STEP.finditer(path):
        name, index, unknown_key = step.groups(default="")
        parents, last = types, name
        types = [child for parent in types for child in types_at(parent, name)]
        if unknown_key and isinstance(value, dict) and (wrong := _wrong_item(value, types)):
            setting, value = f"{setting}.{wrong}", value[wrong]
            continue
        setting += step[0]
        if index and isinstance(value, list):
            value = value[int(index)]
        elif isinstance(value, dict) and not unknown_key:
            value = value.get(name)
        else:
            value = None
    allowed = [field for candidate in types for field in field_types(candidate)]
    if unknown := _UNKNOWN.fullmatch(what):
        name, section, setting = unknown[1], setting, f"{setting}.{unknown[1]}"
        text = unknown_name(name, allowed, moved=MOVED.get(setting, ""))
        if threshold := FURTHER_THRESHOLDS.get(section):
            text += f". Of a resource of load.resources it is thresholds.resources.{name}.{threshold}"
        return f"{setting}: {text}"
    if missing := _MISSING.fullmatch(what):
        return f"{setting}.{missing[1]}: is missing"
    if "is not a duration" in what:
        return f"{setting}: {what}"
    words = [str(word) for candidate in types for word in _literals(candidate)]
    if what.startswith("Invalid enum value"):
        what = f"{_near(str(value), words)}expected {' or '.join(words)}"
    if what.startswith("Invalid value") and (words := list(_tags(parents, last))):
        what = f"{_near(str(value), words)}expected {' or '.join(words)}"
    if "matching regex" in what and (
        described := next((text for candidate in types for text in _described(candidate)), "")
    ):
        what = f"expected {described}"
    text = what.replace("`", "").replace("Expected", "expected", 1)
    return f"{setting}: {text}" if "[...]" in setting else f"{setting}: {show(value)} is not allowed: {text}"


def _wrong_item(items: Mapping[str, Any], types: Iterable[Any]) -> str:
    """The key of the first item that none of these types has; empty if there is none. msgspec does not report it."""
    kinds = tuple(types)
    for key, item in items.items():
        for kind in kinds:
            try:
                msgspec.convert(item, kind, dec_hook=decode_value)
                break
            except msgspec.ValidationError:
                continue
        else:
            return key
    return ""


def unknown_name(name: str, allowed: Iterable[str], *, moved: str = "") -> str:
    """The error text for an unknown setting. `moved`: the setting that replaces it."""
    if moved:
        return f"there is no such setting any more: use {moved}"
    names = sorted(set(allowed))
    return f"there is no such setting: {_near(name, names)}allowed are {', '.join(names) or 'none'}"


def _near(name: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(allowed), n=1)
    return f"did you mean {near[0]}? " if near else ""


def _tags(parents: Iterable[Any], field: str) -> Iterator[str]:
    """The values of the field that selects one of several sections."""
    for section in (section for parent in parents for section in sections_in(parent)):
        configuration = section.__struct_config__
        if configuration.tag is not None and configuration.tag_field == field:
            yield str(configuration.tag)


def _described(kind: Any) -> Iterator[str]:
    """The descriptions of the patterns that a text must match."""
    for metadata in getattr(kind, "__metadata__", ()):
        if isinstance(metadata, msgspec.Meta) and metadata.pattern and metadata.description:
            yield metadata.description
    for argument in get_args(kind):
        yield from _described(argument)


def show(value: Any) -> str:
    """A value as the user wrote it, shortened."""
    text = msgspec.json.encode(value, enc_hook=encode_value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def field_types(kind: Any) -> dict[str, Any]:
    """The types of the fields of a section, or of every section in a union, by their name in the configuration."""
    return {field.encode_name: field.type for section in sections_in(kind) for field in msgspec.structs.fields(section)}


def sections_in(kind: Any) -> Iterator[type[Section]]:
    """The sections in a type: the type itself, or the members of a union."""
    if isinstance(kind, type) and issubclass(kind, Section):
        yield kind
    elif get_origin(kind) not in (None, list, tuple, dict, Mapping, Literal):
        for argument in get_args(kind):
            yield from sections_in(argument)


def types_at(kind: Any, name: str) -> list[Any]:
    """The possible types at the next step of a path: those of a field, or of the items of a list or dict."""
    fields = (field for section in sections_in(kind) for field in msgspec.structs.fields(section))
    if of_fields := [field.type for field in fields if field.encode_name == name]:
        return of_fields
    parts = (kind, *get_args(kind))
    items = [argument for part in parts if get_origin(part) in (list, tuple) for argument in get_args(part)]
    values = [get_args(part)[1] for part in parts if get_origin(part) in (dict, Mapping)]
    return [argument for argument in (*items, *values) if argument is not Ellipsis]


def _literals(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for argument in get_args(kind):
            yield from _literals(argument)
