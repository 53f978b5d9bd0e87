"""Reads messages of later versions, which run beside this one while an upgrade is rolled out.

Unknown fields are ignored. An unknown member of an enumeration, such as a QoS class that was added later, reads as the
default of its field, unless the field is marked `MUST_BE_KNOWN`. So one new word does not make the state of a whole
node unknown.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from equipoise.contracts.bounds import EPOCH_AHEAD
from equipoise.contracts.messages.message import Message

S = TypeVar("S", bound=msgspec.Struct)


class TolerantDecoder(Generic[S]):
    """Decodes JSON. Raises msgspec.MsgspecError, UnicodeError and RecursionError."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def decode(self, payload: bytes | str) -> S:
        try:
            return self._decoder.decode(payload)
        except msgspec.ValidationError:
            document = _without_unknown_members(msgspec.json.decode(payload), inspect.type_info(self._kind))
            return msgspec.convert(document, self._kind)


def plausible(message: S) -> S:
    """Returns the message. Raises ValueError if its contents cannot be true."""
    if isinstance(message, Message) and (why := message.implausible):
        raise ValueError(why)
    return message


def of_its_time(message: S, now: float) -> S:
    """Returns the message. Raises ValueError if its epoch is further in the future than any publisher can be at
    `now`."""
    epoch = getattr(message, "epoch", None)
    if isinstance(epoch, int) and epoch > 1_000 * (now + EPOCH_AHEAD):
        raise ValueError(f"its epoch is {epoch / 1_000 - now:.0f} s ahead of this clock")
    return message


@cache
def _decoder(kind: type[S]) -> TolerantDecoder[S]:
    return TolerantDecoder(kind)


def refusal(value: msgspec.Struct) -> str:
    """Why no reader could decode this message, or this part of a message. Empty if readers can."""
    try:
        plausible(_decoder(type(value)).decode(msgspec.json.encode(value)))
    except (msgspec.MsgspecError, ValueError) as error:
        return str(error)
    return ""


def _without_unknown_members(value: Any, kind: inspect.Type) -> Any:
    """The value without those fields that contain an unknown member of an enumeration and have a default."""
    if isinstance(kind, inspect.UnionType):
        return _in_union(value, kind)
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        return _in_struct(value, kind)
    if isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
        return [_without_unknown_members(item, kind.item_type) for item in value]
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {name: _without_unknown_members(item, kind.value_type) for name, item in value.items()}
    return value


def _in_union(value: Any, kind: inspect.UnionType) -> Any:
    for member in kind.types:
        if (reduced := _without_unknown_members(value, member)) != value:
            return reduced
    return value


def _in_struct(value: Mapping[str, Any], kind: inspect.StructType) -> dict[str, Any]:
    reduced = dict(value)
    for field in kind.fields:
        if field.encode_name not in reduced:
            continue
        if not field.required and _is_unknown(reduced[field.encode_name], field.type):
            del reduced[field.encode_name]
        else:
            reduced[field.encode_name] = _without_unknown_members(reduced[field.encode_name], field.type)
    return reduced


def _is_unknown(value: Any, kind: inspect.Type) -> bool:
    """Whether a text is not a member of the enumeration. Always False for an enumeration that is marked
    MUST_BE_KNOWN."""
    if isinstance(kind, inspect.UnionType):
        return any(_is_unknown(value, member) for member in kind.types)
    return isinstance(kind, inspect.LiteralType) and isinstance(value, str) and value not in kind.values
