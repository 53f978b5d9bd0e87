"""Bodies of Prometheus, read whole and in parts."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.sources.prometheus import json_document as document
from equipoise.collector.sources.prometheus.json_document import SeriesInParts, decode_document

TRAPS = ['},{"metric":', '"},{"metric":{', "\\", "]}}", "a", "", "ä"]
TEXTS = st.sampled_from(TRAPS) | st.text(max_size=20)
SERIES = st.tuples(st.dictionaries(TEXTS, TEXTS, max_size=3), st.tuples(st.integers(), TEXTS)).map(
    lambda parts: {"metric": parts[0], "value": list(parts[1])}  # as Prometheus has them: labels first
)
ENDS = st.fixed_dictionaries({}, optional={"warnings": st.lists(TEXTS), "isPartial": st.booleans()})


def a_body(series: Any, **end: Any) -> bytes:
    data = {"resultType": "vector", "result": series}
    return json.dumps({"status": "success", "data": data} | end, separators=(",", ":"), ensure_ascii=False).encode()


def plain(read: Any) -> Any:
    """A document with every element read."""
    return msgspec.json.decode(msgspec.json.encode(read, enc_hook=list))


@given(series=st.lists(SERIES, max_size=30), end=ENDS, part=st.integers(1, 300))
def test_a_body_decoded_in_parts_equals_the_whole(series: Any, end: Any, part: int) -> None:
    """Every series in its place, whatever its labels hold, and everything after the last one."""
    body = a_body(series, **end)
    decoded = plain(decode_document(body, part))
    assert [{"metric": each["metric"], "value": each["value"]} for each in decoded["data"]["result"]] == series
    assert {key: value for key, value in decoded.items() if key not in ("status", "data")} == end


@given(part=st.integers(1, 300), length=st.integers(0, 1_200))
def test_a_truncated_body_is_an_error(part: int, length: int) -> None:
    """Whether it is decoded in parts or not."""
    body = a_body([{"metric": {"pod": f"web-{number}"}, "value": [1, "2"]} for number in range(30)])
    with pytest.raises(msgspec.DecodeError):
        plain(decode_document(body[: min(length, len(body) - 1)], part))


@given(part=st.integers(1, 300), place=st.integers(0, 29))
def test_one_broken_series_makes_the_body_invalid(part: int, place: int) -> None:
    """Wherever it is."""
    body = a_body([{"metric": {"pod": f"web-{number:02}"}, "value": [1, "2"]} for number in range(30)])
    with pytest.raises(msgspec.DecodeError):
        plain(decode_document(body.replace(f'"web-{place:02}"'.encode(), b'"web"-'), part))


def test_parts_have_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding a part blocks the interpreter, so a body of any length is decoded in short parts."""
    read: list[int] = []

    class Watching:
        def __init__(self, decoder: msgspec.json.Decoder[Any]) -> None:
            self.decoder = decoder

        def decode(self, text: bytes) -> Any:
            read.append(len(text))
            return self.decoder.decode(text)

    monkeypatch.setattr(document, "_DOCUMENT", Watching(document._DOCUMENT))
    monkeypatch.setattr(document, "_SERIES", Watching(document._SERIES))
    body = a_body([{"metric": {"pod": f"web-{number}"}, "value": [1, "2"]} for number in range(2_000)])
    assert len(list(decode_document(body, 5_000)["data"]["result"])) == 2_000
    assert sum(read) >= len(body)
    assert len(read) <= len(body) / 5_000 + 1
    assert max(read) < 2 * 5_000 + 100
    assert max(read[1:]) < 5_000 + 100


def test_a_part_is_decoded_when_its_series_are_read() -> None:
    """The objects of all series would need more memory than the body."""
    body = a_body([{"metric": {"pod": f"web-{number:02}"}, "value": [1, "2"]} for number in range(30)])
    result = decode_document(body.replace(b'"web-20"', b'"web"-'), 100)["data"]["result"]
    assert isinstance(result, SeriesInParts)
    assert b'{"pod":"web-00"}' == bytes(next(iter(result)).metric)
    with pytest.raises(msgspec.DecodeError):
        list(result)


def test_a_matrix_is_decoded_in_parts_too() -> None:
    """Its series hold many values each."""
    series = [{"metric": {"pod": f"web-{number}"}, "values": [[1, "2"], [2, "3"]]} for number in range(50)]
    decoded = plain(decode_document(a_body(series), 100))
    assert [{"metric": each["metric"], "values": each["values"]} for each in decoded["data"]["result"]] == series


@pytest.mark.parametrize(
    "body",
    [
        "[1]",
        "3",
        '{"data":[{"metric":1},{"metric":2},{"metric":3},{"metric":4}]}',
        '{"x":{"y":[{"metric":1},{"metric":2}]},"z":[{"metric":3},{"metric":4},{"metric":5}],"data":[]}',
    ],
)
def test_other_documents_are_decoded_unchanged(body: str) -> None:
    """The caller checks what it is."""
    assert decode_document(body.encode(), 10) == json.loads(body)
