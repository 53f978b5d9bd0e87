"""Samples from Prometheus responses, valid and invalid."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.query import Origin, Sample, SourceError, series_name
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.samples import (
    LABELS_TTL,
    LabelCache,
    identified_by_name,
    number,
    result_of,
    spacings,
    time_of,
    vector,
)

LABELS = LabelCache(("node", "instance"))
HINT = (
    "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "
    '"equipoise:node_cpu_seconds:sum"'
)
STORE_DOWN = (
    "receive series from Addr: 127.0.0.1:20513 MinTime: 1795332183000 MaxTime: 9223372036854775807: "
    "rpc error: code = Unavailable desc = error reading from server: connection reset by peer"
)
"""Both as Thanos Query 0.42.4 returns them."""


def a_document(result_of: Any, kind: str = "vector", **fields: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result_of}, **fields}


def an_element(value: Any = (1.0, "2.5"), **labels: str) -> dict[str, Any]:
    return {"metric": labels or {"node": "a"}, "value": list(value)}


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ("<html>", "no JSON object"),
        (None, "no JSON object"),
        ({"status": "error", "error": "query processing would load too many samples"}, "too many samples"),
        (a_document([], warnings=["one store is away"]), "partial"),
        (a_document([], warnings=[HINT, STORE_DOWN]), r"warnings: \['receive series from"),
        (a_document([], warnings="PromQL info: of another kind"), "partial"),
        (a_document([], isPartial=True), "partial"),
        (a_document([], kind="matrix"), "matrix"),
        ({"status": "success"}, "None"),
        ({"status": "success", "data": []}, "None"),
    ],
)
def test_an_incomplete_response_is_an_error(document: Any, word: str) -> None:
    """An error, a warning or another type of result makes the whole query fail, with a reason."""
    with pytest.raises(SourceError, match=word):
        result_of(document, "vector")


def test_infos_of_prometheus_are_ignored() -> None:
    """They are hints about the query, not about the data."""
    assert [] == result_of(a_document([], infos=["metric might not be a counter"], warnings=[]), "vector")


def test_hints_among_the_warnings_are_ignored() -> None:
    """Thanos Query has Prometheus' infos among its warnings."""
    assert [] == result_of(a_document([], warnings=[HINT]), "vector")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.5", 1.5), ("0", 0.0), ("1e3", 1000.0), ("+Inf", math.inf), ("-Inf", -math.inf), ("1e400", math.inf)],
)
def test_numbers_of_prometheus_are_parsed(text: str, expected: float) -> None:
    """Exponents and infinities too."""
    assert expected == number(text)


@pytest.mark.parametrize("value", ["NaN", "1_0", "٠.٥", " 1", "1\n", "", "0x1", None, 1, True, [], "infinity"])
def test_invalid_numbers_are_nan(value: Any) -> None:
    """Python's float() would accept some of these."""
    assert math.isnan(number(value))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"node": "a", "instance": "10.0.0.1:10250"}, "a"),
        ({"node": "", "instance": "b:10250"}, "b"),
        ({"instance": "b"}, "b"),
        ({"instance": "b:metrics"}, "b"),
        ({"instance": "[FD00:0::1]:9100"}, "fd00::1"),
    ],
)
def test_the_first_node_label_names_the_node(labels: dict[str, str], expected: str) -> None:
    """`node`, else `instance` without the port."""
    assert [expected] == [sample.node for sample in vector([an_element(**labels)], "node", LABELS)]


def test_series_without_names_are_left_out() -> None:
    """Their node or pod is unknown."""
    assert [] == vector([an_element(job="x")], "node", LABELS)
    assert [] == vector([an_element(node="a", pod="p")], "pod", LABELS)
    assert ["p"] == [s.pod for s in vector([an_element(namespace="n", pod="p")], "pod", LABELS)]


def test_pods_that_were_not_chosen_are_left_out() -> None:
    """A result about all pods of a large cluster is large."""
    pods = [an_element(namespace="n", pod=pod) for pod in ("a", "b")]
    assert ["b"] == [sample.pod for sample in vector(pods, "pod", LABELS, pods={("n", "b")})]


def test_a_search_for_labels_has_series_without_names_too() -> None:
    """A query that is limited by a label would leave them out."""
    found = vector([an_element(job="x"), an_element(node="a")], "node", LABELS, unnamed=True)
    assert [("", ""), ("node", "a")] == [(sample.origin.label, sample.node) for sample in found]


def test_a_series_has_the_same_name_after_functions() -> None:
    """timestamp() and rate() drop the metric's name; the other labels identify the series."""
    (raw,) = vector([an_element(__name__="m", node="a")], "node", LABELS)
    (rate,) = vector([an_element(node="a")], "node", LABELS)
    (other,) = vector([an_element(node="a", replica="2")], "node", LABELS)

    assert raw.series == rate.series != other.series


def test_spacing_is_the_median_of_the_gaps() -> None:
    """A single gap does not change it."""
    times = [0, 15, 30, 45, 300, 315]
    element = {"metric": {"node": "a"}, "values": [[at, "1"] for at in times]}

    assert [15.0] == [sample.value for sample in spacings([element], "node", LABELS)]


@pytest.mark.parametrize("values", [[], [[1, "1"]], [[1, "1"], [1, "1"]], None, "x", [["1", "1"], [2]]])
def test_no_spacing_without_two_samples(values: Any) -> None:
    """Neither with one sample nor with invalid ones."""
    assert [] == spacings([{"metric": {"node": "a"}, "values": values}], "node", LABELS)


@pytest.mark.parametrize("result", [[0, "12.5"], [{"metric": {}, "value": [0, "12.5"]}]])
def test_the_time_may_be_a_scalar_or_a_vector(result: Any) -> None:
    """Prometheus returns a scalar, VictoriaMetrics a vector of one."""
    kind = "scalar" if len(result) == 2 else "vector"
    body = msgspec.json.encode(a_document(result, kind))

    assert 12.5 == time_of(result) == time_of(result_of(decode_document(body), "scalar", "vector"))


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (b'{"metric":{"node":"\xff"},"value":[0,"1"]}', [2.5]),
        (b'{"metric":{"node":"b"},"value":[0,1e999]}', [2.5, math.nan]),
    ],
)
def test_an_invalid_series_does_not_affect_the_others(element: bytes, values: list[float]) -> None:
    """Anyone who may label a pod could stop all measurements otherwise."""
    good = msgspec.json.encode(an_element(node="a"))
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + good + b"," + element + b"]}}"
    published = [
        sample.value for sample in vector(result_of(decode_document(body), "vector"), "node", LabelCache(("node",)))
    ]

    assert published == pytest.approx(values, nan_ok=True)


def test_labels_that_no_response_contains_any_more_are_deleted() -> None:
    """Pods come and go."""
    labels = LabelCache(("node",))
    bodies = [msgspec.json.encode(a_document([an_element(node=name)])) for name in ("current", "deleted")]
    for rotate in range(4):
        labels.rotate(rotate * LABELS_TTL)
        for body in bodies[: 2 if rotate == 0 else 1]:
            assert vector(result_of(decode_document(body), "vector"), "node", labels)

    assert [b'{"node":"current"}'] == list(labels._recent | labels._old)


@pytest.mark.parametrize(
    "result",
    [[1.0, "x"], [1.0], "12", None, {}, [1.0, "-5"], [1.0, "NaN"], [{}], [{"value": 1}], [{"value": [0, "1"]}] * 2],
)
def test_an_invalid_time_is_an_error(result: Any) -> None:
    """The skew would be wrong."""
    with pytest.raises(SourceError):
        time_of(result)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
ELEMENT = st.fixed_dictionaries(
    {},
    optional={
        "metric": st.dictionaries(
            st.sampled_from(["node", "instance", "namespace", "pod", "x"]), st.text(max_size=5) | JSON
        )
        | JSON,
        "value": st.tuples(st.floats(), st.text(max_size=6) | JSON).map(list) | JSON,
        "values": JSON,
        "histogram": JSON,
    },
)


@given(document=JSON | st.lists(ELEMENT | JSON).map(a_document))
def test_any_json_becomes_samples_or_a_source_error(document: Any) -> None:
    """A value of 0 only when Prometheus wrote one."""
    for read in (vector, spacings):
        for subject in ("node", "pod"):
            try:
                samples = read(result_of(document, "vector"), subject, LABELS)
            except SourceError:
                continue
            for sample in samples:
                if read is vector and sample.value == 0:
                    written = [e["value"][1] for e in document["data"]["result"] if isinstance(e, dict) and "value" in e
                               and isinstance(e["value"], list) and len(e["value"]) == 2]  # fmt: skip
                    assert any(isinstance(text, str) and number(text) == 0 for text in written)


def a_sample(node: str) -> Sample:
    return Sample(origin=Origin(node=node), series=series_name({"instance": node}), value=1.0)


def test_series_can_be_identified_by_name_alone() -> None:
    """When the user's mean and raw samples have different other labels."""
    first, second = identified_by_name([a_sample("a"), Sample(origin=Origin(node="a"), series="", value=2.0)])

    assert first.series == second.series


def test_a_part_that_is_no_json_makes_the_whole_result_unknown() -> None:
    series = [f'{{"metric":{{"node":"n-{number}"}},"value":[1,"2"]}}' for number in range(30)]
    series[20] = '{"metric":{"node"-}}'
    body = '{"status":"success","data":{"resultType":"vector","result":[' + ",".join(series) + "]}}"
    with pytest.raises(SourceError, match="no JSON"):
        vector(result_of(decode_document(body.encode(), 100), "vector"), "node", LabelCache(("node",)))
