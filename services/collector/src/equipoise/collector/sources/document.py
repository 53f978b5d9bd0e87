"""From the body of a Prometheus answer to a document, so that the event loop goes on meanwhile.

Nothing of Python runs beside the reading of JSON, also when a thread reads it. Of a big answer labels and values
therefore stay text until they are asked for, and a body of many megabytes is read in parts.
"""

from itertools import pairwise
from typing import Any, TypedDict

import msgspec

PART = 2**21
"""Bytes that are read in one go: some five milliseconds."""

_BETWEEN = b'},{"metric":'
"""What lies between two series. No text can hold it: a quotation mark in a text has a backslash before it."""


class Element(msgspec.Struct, kw_only=True, gc=False):
    """A series in an answer."""

    metric: Any = None
    value: Any = None
    values: Any = None


class _Unread(Element, kw_only=True, gc=False):
    metric: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Data(TypedDict, total=False):
    resultType: Any
    result: list[_Unread]


class _Document(TypedDict, total=False):
    status: Any
    error: Any
    warnings: Any
    isPartial: Any
    data: _Data


_DOCUMENT = msgspec.json.Decoder(_Document)
_SERIES = msgspec.json.Decoder(list[_Unread])


def read_document(body: bytes, part: int = PART) -> Any:
    """A body as plain values, the elements of a vector not read yet. Raises msgspec.DecodeError."""
    try:
        return _in_parts(body, part)
    except msgspec.DecodeError:
        pass  # no vector of elements, or none that can be taken apart: whoever asked judges what it is
    try:
        return _DOCUMENT.decode(body)
    except msgspec.ValidationError:
        return msgspec.json.decode(body)


def _in_parts(body: bytes, part: int) -> _Document:
    """What comes before, between and after the places where the body can be cut, put together again."""
    cuts = []
    at = body.find(_BETWEEN, part)
    while at >= 0:
        cuts.append(at)
        at = body.find(_BETWEEN, at + part)
    if len(cuts) < 2:
        return _DOCUMENT.decode(body)
    whole = memoryview(body)
    document = _DOCUMENT.decode(b"".join((whole[: cuts[0] + 1], whole[cuts[-1] + 1 :])))
    series = document.get("data", _Data()).get("result", [])
    middle: list[_Unread] = []
    for begun, ended in pairwise(cuts):
        middle += _SERIES.decode(b"".join((b"[", whole[begun + 2 : ended + 1], b"]")))
    first = body.count(_BETWEEN, 0, cuts[0]) + 1
    series[first:first] = middle
    return document
