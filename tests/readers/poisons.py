"""JSON that nobody should send: put in place of any part of a document."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]

PLACE = "\x00place\x00"
ENCODED_PLACE = json.dumps(PLACE)

DEEP = "[" * 1_500 + "]" * 1_500
LONG_TEXT = json.dumps("x" * 20_000)

NUMBERS = (
    "1e308",
    "-1e308",
    "1e39",
    "1e400",
    "-1",
    "1" + "0" * 400,
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "4e-324",
)
"""None is 0."""

TEXTS = tuple(
    json.dumps(text)
    for text in (
        "1e308",
        "10E",
        "-5",
        "NaN",
        "Infinity",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05+99:00",
        "\x1b]52;c;aGFjaw==\x07\x9b2J\u202e",
        "0-99999999999999999999",
        "9" * 5_000,
        "a\nb\r\tc\u2028",
        "../../etc/passwd",
        "\x00",
    )
)

OTHERS = ("true", "[]", "{}", '[["a"]]', '{"a":{"a":[1]}}', '{"cpu":1,"cpu":2}', '"\\ud800"', DEEP, LONG_TEXT)

POISONS = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from(OTHERS),
    st.integers(min_value=1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).filter(bool).map(json.dumps),
    st.text(min_size=1).map(json.dumps),
    st.binary(min_size=1, max_size=20).map(lambda raw: json.dumps(raw.decode("latin-1"))),
)
"""JSON texts, none of which is 0, null or empty text: these have a meaning."""


def places(document: Any, path: Path = ()) -> Iterator[Path]:
    """Every part of a document but the whole."""
    parts = document.items() if isinstance(document, dict) else enumerate(document) if _is_list(document) else ()
    for key, value in parts:
        yield (*path, key)
        yield from places(value, (*path, key))


def poisoned(document: Any, path: Path, poison: str) -> str:
    """The JSON of a document with this text in place of a part."""
    return json.dumps(_replaced(document, path)).replace(ENCODED_PLACE, poison)


def _replaced(document: Any, path: Path) -> Any:
    if not path:
        return PLACE
    changed: Any = dict(document) if isinstance(document, dict) else list(document)
    changed[path[0]] = _replaced(document[path[0]], path[1:])
    return changed


def _is_list(document: Any) -> bool:
    return isinstance(document, list | tuple)
