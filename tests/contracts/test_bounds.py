"""Every number of every message has bounds, and what exceeds them is no message."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.contracts.messages.message import type_name

KINDS = sorted(
    {kind for channel in CHANNELS for kind in (channel.message, channel.response) if kind is not None}, key=type_name
)
EXAMPLES = {
    type(example): example
    for channel in CHANNELS
    for example in (channel.example[1], channel.response_example)
    if example is not None
}
KUBERNETES = "equipoise.contracts.kubernetes."
"""Parts of objects of the API server, which are not counted with."""

ABSURD: tuple[Any, ...] = (1e39, -1e39, 1e300, 10**400, -(10**30), 2**63)


def numbers(kind: inspect.Type, path: str, seen: frozenset[Any] = frozenset()) -> Iterator[tuple[str, inspect.Type]]:
    """The numbers in a type, by their path."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            yield path, kind
        case inspect.StructType(cls=cls) if cls.__module__.startswith(KUBERNETES):
            return
        case inspect.StructType(cls=cls, fields=fields) if cls not in seen:
            for field in fields:
                yield from numbers(field.type, f"{path}.{field.encode_name}", seen | {cls})
        case inspect.UnionType(types=members):
            for member in members:
                yield from numbers(member, path, seen)
        case inspect.DictType(value_type=value):
            yield from numbers(value, f"{path}[...]", seen)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from numbers(item, f"{path}[]", seen)
        case inspect.Metadata(type=inner):
            yield from numbers(inner, path, seen)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_number_of_a_message_has_a_lowest_and_a_highest_value(kind: type[msgspec.Struct]) -> None:
    """See contracts/bounds.py: use one of its types for a new field."""
    found = list(numbers(inspect.type_info(kind), kind.__name__))
    without = [path for path, number in found if None in (number.ge, number.le)]  # type: ignore[attr-defined]

    assert without == []


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers of a JSON document are."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, (*path, index))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    key, *rest = path
    changed = dict(document) if isinstance(document, dict) else list(document)
    changed[key] = with_value(document[key], tuple(rest), value) if rest else value
    return changed


def json_of(document: Any) -> bytes:
    """msgspec encodes no integers of more than 64 bits."""
    return json.dumps(document).encode()


@given(st.data())
def test_a_message_with_an_absurd_number_is_no_message(data: st.DataObject) -> None:
    """No number of any message may exceed what a machine has."""
    kind = data.draw(st.sampled_from(KINDS))
    document = msgspec.json.decode(msgspec.json.encode(EXAMPLES[kind]))
    found = list(places(document))
    if not found:
        return
    poisoned = with_value(document, data.draw(st.sampled_from(found)), data.draw(st.sampled_from(ABSURD)))

    with pytest.raises((msgspec.MsgspecError, ValueError)):
        plausible(TolerantDecoder(kind).decode(json_of(poisoned)))


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=lambda example: type(example).__name__)
def test_the_examples_are_plausible(example: msgspec.Struct) -> None:
    decoded = plausible(TolerantDecoder(type(example)).decode(msgspec.json.encode(example)))

    assert decoded == example
