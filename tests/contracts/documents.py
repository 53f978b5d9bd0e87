"""Messages and other documents as other versions write them.

`./run python tests/contracts/documents.py` records those of this version, for a release: the tests of later versions
read them.
"""

import json
import sys
from collections.abc import Callable
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_json import encode
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE, NodeLoad, WorkloadUsage
from equipoise.contracts.messages.message import type_name

RECORDED = Path(__file__).parents[1] / "data" / "versions"
"""By version: `messages.json`, `annotations.json` and `ledger.json`."""

LATER_WORD = "addedLater"
LATER_FIELD = "addedLater"
LATER_VALUE = {"nested": [1, None, {"deep": LATER_WORD}]}

ANNOTATIONS: dict[str, type[msgspec.Struct]] = {LOAD: NodeLoad, USAGE: WorkloadUsage}


def record(directory: Path) -> None:
    """A message of each channel, the annotations and a ledger, each with a value in every field."""
    directory.mkdir(parents=True, exist_ok=True)
    messages = {
        channel.example[0]: {"ce-type": type_name(channel.message), "message": complete(channel.message)}
        for channel in CHANNELS
    }
    annotations = {key: complete(kind) for key, kind in ANNOTATIONS.items()}
    ledger = msgspec.convert(complete(Ledger), Ledger)
    for name, content in (("messages", messages), ("annotations", annotations)):
        (directory / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    (directory / "ledger.json").write_text(encode(ledger))


def complete(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON of a message with a value in every field."""
    found: dict[str, Any] = _complete(inspect.type_info(kind), kind.__name__)
    return found


def _complete(kind: inspect.Type, name: str, default: Any = None) -> Any:
    """Another value than the default, which many objects leave out."""
    match kind:
        case inspect.StructType(fields=fields):
            known = [field for field in fields if field.encode_name != "unknownFields"]
            return {field.encode_name: _complete(field.type, field.encode_name, field.default) for field in known}
        case inspect.Metadata(type=inner):
            return _complete(inner, name, default)
        case inspect.UnionType(types=types):
            return _complete(next(each for each in types if not isinstance(each, inspect.NoneType)), name)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            length = 24 if isinstance(item, inspect.UnionType) else 1  # the slots of a day
            return [_complete(item, name)] * length
        case inspect.DictType(value_type=value):
            return {"5m": _complete(value, name)}
        case inspect.LiteralType(values=values):
            return next(value for value in values if value != default)
        case inspect.EnumType(cls=cls):
            members: list[Enum] = list(cls)
            return members[0].value
        case inspect.BoolType():
            return default is not True
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 1.5
        case inspect.DateTimeType():
            return "2026-11-23T07:00:00Z"
        case inspect.StrType():
            return f"some {name}"
        case inspect.AnyType():
            return {"some": name}
    raise NotImplementedError(f"{name}: {kind}")


def as_of_a_later_version(document: Any, kind: type[msgspec.Struct]) -> Any:
    """With an unknown field in every object, and an unknown word in every enumeration that may have one."""
    return _later(document, inspect.type_info(kind))


def _later(value: Any, kind: inspect.Type) -> Any:
    match kind:
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            by_name = {field.encode_name: field for field in fields}
            later = {
                name: _later_field(each, by_name[name]) if name in by_name else each for name, each in value.items()
            }
            return {LATER_FIELD: LATER_VALUE} | later
        case inspect.UnionType(types=types):
            changed = (found for each in types if (found := _later(value, each)) != value)
            return next(changed, value)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if isinstance(value, list):
            return [_later(each, item) for each in value]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return {name: _later(each, item) for name, each in value.items()}
    return value


def _later_field(value: Any, field: inspect.Field) -> Any:
    if isinstance(field.type, inspect.LiteralType) and not field.required:
        return LATER_WORD
    return _later(value, field.type)


def differences(older: Any, newer: Any, path: str = "") -> list[str]:
    """Where a value of an older document is not in a newer one."""
    if isinstance(older, dict) and isinstance(newer, dict):
        return [
            each
            for name, value in older.items()
            for each in differences(value, newer.get(name, "<absent>"), f"{path}.{name}")
        ]
    if isinstance(older, list) and isinstance(newer, list) and len(older) == len(newer):
        return [
            each
            for number, (old, new) in enumerate(zip(older, newer, strict=True))
            for each in differences(old, new, f"{path}[{number}]")
        ]
    return [] if older == newer else [f"{path}: {older!r} became {newer!r}"]


def recorded(name: str) -> dict[str, Callable[[], str]]:
    """By version: reads the recorded document."""
    return {folder.name: (folder / f"{name}.json").read_text for folder in sorted(RECORDED.iterdir())}


if __name__ == "__main__":
    record(RECORDED / (sys.argv[1] if len(sys.argv) > 1 else version("equipoise-common")))
