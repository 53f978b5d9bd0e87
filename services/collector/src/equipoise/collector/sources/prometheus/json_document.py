"""Decodes the JSON body of a Prometheus response without blocking the event loop for long.

The JSON decoder holds the interpreter lock, even in a thread. So labels and values of a large response stay text
until they are needed, and a body of many megabytes is decoded in parts, each when it is read: the objects of all series
would need more memory than the body.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypedDict

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that decoders raise for a body that is not JSON."""

PART_BYTES = 2**21
"""The size of a part, which is decoded in some five milliseconds."""

_BETWEEN = b'},{"metric":'
"""The bytes between two series. No JSON string can contain them, because it escapes quotation marks."""


class Element(msgspec.Struct, kw_only=True, gc=False):
    """A series in a result."""

    metric: Any = None
    value: Any = None
    values: Any = None


class _RawElement(Element, kw_only=True, gc=False):
    metric: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    values: msgspec.Raw = msgspec.Raw(b"null")


class SeriesInParts:
    """The series of a large result, each an `Element`. Iteration raises msgspec.DecodeError at a part that is not
    JSON."""

    def __init__(self, body: bytes, cuts: Sequence[int], first: Sequence[Element], last: Sequence[Element]) -> None:
        """`cuts`: the places of the braces before which the body is cut; `first`, `last`: the series before the first
        and after the last of them."""
        self._body = body
        self._cuts = cuts
        self._first = first
        self._last = last

    def __iter__(self) -> Iterator[Element]:
        yield from self._first
        view = memoryview(self._body)
        # A cut is the brace that ends a series; the next series begins two bytes later.
        for begin, end in pairwise(self._cuts):
            yield from _SERIES.decode(b"".join((b"[", view[begin + 2 : end + 1], b"]")))
        yield from self._last


class _Data(TypedDict, total=False):
    resultType: Any
    result: list[_RawElement]


class _Document(TypedDict, total=False):
    status: Any
    error: Any
    warnings: Any
    isPartial: Any
    data: _Data


_DOCUMENT = msgspec.json.Decoder(_Document)
_SERIES = msgspec.json.Decoder(list[_RawElement])


def decode_document(body: bytes, part_bytes: int = PART_BYTES) -> Any:
    """A body as plain values, the elements of a vector still as text; the result of a large body is a `SeriesInParts`.
    Raises msgspec.DecodeError."""
    try:
        return _decode_in_parts(body, part_bytes)
    except msgspec.DecodeError:
        pass  # not a vector, or one that cannot be split: it is decoded whole, and the caller checks its type
    try:
        return _DOCUMENT.decode(body)
    except msgspec.ValidationError:
        return msgspec.json.decode(body)


def error_text(body: bytes) -> str:
    """The error of a response; empty without one."""
    try:
        document = msgspec.json.decode(body)
    except NOT_JSON:
        return ""
    text = document.get("error") if isinstance(document, dict) else None
    return text if isinstance(text, str) else ""


def _decode_in_parts(body: bytes, part_bytes: int) -> Any:
    """Decode the text before the first and after the last cut as one document."""
    cuts = []
    at = body.find(_BETWEEN, part_bytes)
    while at >= 0:
        cuts.append(at)
        at = body.find(_BETWEEN, at + part_bytes)
    if len(cuts) < 2:
        return _DOCUMENT.decode(body)
    view = memoryview(body)
    document = _DOCUMENT.decode(b"".join((view[: cuts[0] + 1], view[cuts[-1] + 1 :])))
    data = document.get("data", _Data())
    series = data.get("result", [])
    first = body.count(_BETWEEN, 0, cuts[0]) + 1
    return document | {"data": data | {"result": SeriesInParts(body, cuts, series[:first], series[first:])}}
