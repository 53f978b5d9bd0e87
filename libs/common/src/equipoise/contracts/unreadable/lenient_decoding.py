"""Reads objects with a part that cannot be decoded: the other parts, and the reason.

Such an object has `metadata.unreadable`. It counts as unknown, and is protected. Its other fields decide nothing.
An API server, an extension or a proxy can send any JSON; a user can write times and numbers that have no value here,
such as the year 0000 in a Lease.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import CustomWorkload, WorkloadObject
from equipoise.contracts.plain_text import plain_text

T = TypeVar("T", bound=Object)
Envelope = TypeVar("Envelope")

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that decoding raises."""

MAX_DEPTH = 100
"""The maximum nesting of lists and objects. No field that is read here is nested so deeply."""

_DEPTHS = (*[MAX_DEPTH] * 16, *[2] * 8, *[1] * 8)
"""How many levels of the path to the first, second, … undecodable part are used to remove it. Later parts are removed
at a higher level, and after the last one, only the name is read."""

_REASON_LIMIT = 200

_QUANTITIES = frozenset(
    {"requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources", "hard", "used"}
)
"""Fields in which a number is a quantity, and null is 0."""

_TEXTS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "data"})
"""Fields in which null is an empty text. This also applies to the selector of a Service."""

_SELECTOR = frozenset({"matchLabels", "matchExpressions"})

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
"""A string, which may be cut off, or a bracket. Matching takes linear time for any text."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)
"""A pair of surrogates, half of a pair, or any other escape."""

_PART = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_PLACE = re.compile(r"(.*) - at (?:`key` in )?`\$([^`]*)`", re.DOTALL)


@cache
def object_decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(model, strict=is_strict(model))


def is_strict(model: type[Object]) -> bool:
    """Whether numbers must be numbers. Not for workloads: an Argo Rollout writes its observedGeneration as a string."""
    return model not in (WorkloadObject, CustomWorkload)


def read_object(raw: bytes | msgspec.Raw, model: type[T]) -> T:
    """The object, with `metadata.unreadable` if a part of it cannot be decoded. Raises DecodeError for no JSON object.

    Null is read as absent everywhere.
    """
    try:
        value: T = object_decoder(model).decode(raw)
    except DECODE_ERRORS:
        return convert_object(_json_of(shallow(bytes(raw))), model)
    return value


def read_item(raw: msgspec.Raw, model: type[T]) -> T:
    """The result of `read_object` for an item of a list. An item that is no JSON object becomes an object without a
    name."""
    try:
        return read_object(raw, model)
    except msgspec.DecodeError as error:
        return msgspec.convert({"metadata": {"unreadable": str(error)}}, model)


def read_envelope(decoder: msgspec.json.Decoder[Envelope], body: bytes) -> Envelope:
    """Decodes the message that contains objects, such as a list, with the objects as msgspec.Raw. Raises DecodeError.

    If it cannot be decoded, tries again without parts that are nested too deeply, and with invalid Unicode replaced.
    """
    try:
        return decoder.decode(body)
    except DECODE_ERRORS:
        return decoder.decode(_with_whole_characters(shallow(body).decode(errors="replace")))


def _with_whole_characters(text: str) -> str:
    """JSON in which each half of a pair of surrogates is replaced."""
    return _ESCAPE.sub(lambda found: "\\ufffd" if len(found[0]) == len("\\ufffd") else found[0], text)


def convert_object(document: Any, model: type[T]) -> T:
    """The result of `read_object`, from JSON as dicts and lists that are not nested deeper than MAX_DEPTH."""
    if not isinstance(document, dict):
        raise msgspec.DecodeError(f"expected an object, got {type(document).__name__}")
    tree = as_accepted(document)
    problems: list[str] = []
    for depth in _DEPTHS:
        try:
            value = msgspec.convert(tree, model, strict=is_strict(model))
        except msgspec.ValidationError as error:
            problem, path = _place(str(error))
            problems.append(problem)
            if not _remove(tree, path[:depth]):
                break
        else:
            if not problems:
                return value
            metadata = _identified(value.metadata, document, problems)
            return msgspec.structs.replace(value, metadata=metadata)
    metadata = _identified(ObjectMeta(), document, problems)
    try:
        return msgspec.convert({"metadata": msgspec.to_builtins(metadata)}, model, strict=False)
    except msgspec.ValidationError as error:  # a model with required fields
        raise msgspec.DecodeError(problems[0]) from error


def as_accepted(document: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest in which numbers become quantities and null fields are absent, as the API server accepts them. Raises
    RecursionError."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if key in _QUANTITIES and isinstance(value, dict):
            found[key] = {name: _quantity(each) for name, each in value.items()}
        elif isinstance(value, dict) and (key in _TEXTS or (key == "selector" and not value.keys() & _SELECTOR)):
            found[key] = {name: "" if each is None else _accepted(each) for name, each in value.items()}
        elif value is not None:
            found[key] = _accepted(value)
    return found


def shallow(raw: bytes) -> bytes:
    """The document with null instead of parts that are nested deeper than MAX_DEPTH. Such parts cannot be decoded, even
    as Raw."""
    depth = 0
    start = end = 0
    kept: list[bytes] = []
    for token in _TOKEN.finditer(raw):
        match raw[token.start()]:
            case 0x7B | 0x5B:
                depth += 1
                if depth == MAX_DEPTH + 1:
                    start = token.start()
            case 0x7D | 0x5D:
                depth -= 1
                if depth == MAX_DEPTH:
                    kept += [raw[end:start], b"null"]
                    end = token.end()
    return b"".join([*kept, raw[end:]]) if kept else raw


def _json_of(raw: bytes) -> Any:
    """The value of JSON that msgspec cannot decode, with numbers of any size or invalid Unicode."""
    try:
        return json.loads(raw.decode(errors="replace"), parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(f"this is no JSON: {plain_text(str(error), _REASON_LIMIT)}") from error


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) < 40 else float(digits)  # int() refuses thousands of digits


def _accepted(value: Any) -> Any:
    match value:
        case dict():
            return as_accepted(value)
        case list():
            return [{} if each is None else _accepted(each) for each in value]
        case str() if not value.isascii():
            return value.encode(errors="replace").decode()  # a half of a pair cannot be encoded again
    return value


def _quantity(value: Any) -> Any:
    if value is None:
        return "0"
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _accepted(value)


def _place(error: str) -> tuple[str, list[str]]:
    """The error with its path first, and the path as keys and indices."""
    match = _PLACE.fullmatch(error)
    what, place = match.groups() if match else (error, "")
    problem = f"{place.lstrip('.')}: {what}" if place else what
    return plain_text(problem, _REASON_LIMIT), [key or index for key, index in _PART.findall(place)]


def _remove(tree: Any, path: list[str]) -> bool:
    """Removes a part; returns whether it could be removed. A mapping with a wrong key or value is removed as a
    whole."""
    if "..." in path:
        path = path[: path.index("...")]
    if not path:
        return False
    for step in path[:-1]:
        tree = tree[int(step) if isinstance(tree, list) else step]
    del tree[int(path[-1]) if isinstance(tree, list) else path[-1]]
    return True


def _identified(metadata: ObjectMeta, document: Mapping[str, Any], problems: list[str]) -> ObjectMeta:
    """The metadata with the name of the object, and the reason why it cannot be read."""
    own = document.get("metadata")
    names = own if isinstance(own, dict) else {}
    reason = problems[0] if len(problems) == 1 else f"{problems[0]} (and {len(problems) - 1} more)"
    texts = {
        field: plain_text(str(names[key]), 253)
        for field, key in (("name", "name"), ("namespace", "namespace"), ("uid", "uid"))
        if not getattr(metadata, field) and isinstance(names.get(key), (str, int, float))
    }
    version = names.get("resourceVersion")
    if not metadata.resource_version and isinstance(version, (str, int)):
        texts["resource_version"] = str(version)
    return msgspec.structs.replace(metadata, **texts, unreadable=reason)
