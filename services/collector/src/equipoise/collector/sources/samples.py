"""From a Prometheus answer to samples. Whatever comes, nothing here turns it into a 0 that was not measured.

A fault of the whole answer (an error, a warning, another type of result) is a SourceError: that question is unknown.
A fault of one element makes that element's value NaN, so that it is seen and judged as what it is: not a number.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Any, TypedDict

import msgspec

from equipoise.collector.questions import Sample, SourceError, Subject

# What Prometheus writes, and no more: float() also reads "1_0", blanks and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
SERIES = 400_000
"""How many series are remembered by their labels: those of 150,000 pods and 5,000 nodes, with and without a name."""

_PORT = re.compile(r":\d{1,5}", re.ASCII)


class _Element(TypedDict, total=False):
    metric: msgspec.Raw
    value: Any
    values: Any


class _Data(TypedDict, total=False):
    resultType: Any
    result: list[_Element]


class _Document(TypedDict, total=False):
    status: Any
    error: Any
    warnings: Any
    isPartial: Any
    data: _Data


_LAZY = msgspec.json.Decoder(_Document)


def read_document(body: bytes) -> Any:
    """A body as plain values, the labels of a vector's elements not read yet. Raises msgspec.DecodeError."""
    try:
        return _LAZY.decode(body)
    except msgspec.ValidationError:
        return msgspec.json.decode(body)  # no vector of elements: whoever asked judges what it is


def result(document: Any, *kinds: str) -> Any:
    """The result of an answer, if it is whole and of one of these resultTypes; else SourceError."""
    if not isinstance(document, Mapping):
        raise SourceError("the answer is no JSON object: is this the address of a Prometheus?")
    if document.get("status") != "success":
        raise SourceError(f"the query failed: {_short(document.get('error') or document.get('status'))}")
    for key in ("warnings", "isPartial"):
        if document.get(key):
            raise SourceError(f"the answer may be partial ({key}: {_short(document[key])})")
    data = document.get("data")
    found = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or found not in kinds:
        raise SourceError(f"the answer holds a {_short(found)} where a {kinds[0]} was asked for")
    return data.get("result")


def number(value: Any) -> float:
    """A sample's value; NaN for what is none, infinity for what is."""
    if not isinstance(value, str):
        return math.nan
    if _NUMBER.fullmatch(value):
        return float(value)
    return {"+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}.get(value, math.nan)


def moment(answer: Any) -> float:
    """The time that `time()` gave; SourceError when it is no time.

    VictoriaMetrics answers with a vector of one element without labels where Prometheus answers with a scalar.
    """
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], Mapping):
        answer = answer[0].get("value")
    value = number(answer[1]) if isinstance(answer, list) and len(answer) == 2 else math.nan
    if not math.isfinite(value) or value <= 0:
        raise SourceError("the answer to time() is no time: is this the address of a Prometheus?")
    return value


def vector(answer: Any, subject: Subject, node_labels: Sequence[str]) -> list[Sample]:
    """Samples of an instant vector. Elements without names (of node, or of namespace and pod) are left out."""
    return [
        named
        for element in _elements(answer)
        if (named := _sample(element, subject, node_labels, _instant(element))) is not None
    ]


def spacings(answer: Any, subject: Subject, node_labels: Sequence[str]) -> list[Sample]:
    """Per series of a range vector the median seconds between raw samples; series of fewer than two are left out."""
    samples = []
    for element in _elements(answer):
        times = _times(element.get("values"))
        gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
        sample = _sample(element, subject, node_labels, median(gaps)) if gaps else None
        if sample is not None:
            samples.append(sample)
    return samples


def _elements(answer: Any) -> list[Mapping[str, Any]]:
    if not isinstance(answer, list):
        raise SourceError("the answer's result is no list")
    return [element for element in answer if isinstance(element, Mapping)]


def _instant(element: Mapping[str, Any]) -> float:
    pair = element.get("value")
    return number(pair[1]) if isinstance(pair, list) and len(pair) == 2 else math.nan


def _times(values: Any) -> list[float]:
    if not isinstance(values, list):
        return []
    moments = [pair[0] for pair in values if isinstance(pair, list) and len(pair) == 2]
    return [float(at) for at in moments if isinstance(at, int | float) and not isinstance(at, bool)]


def _sample(element: Mapping[str, Any], subject: Subject, node_labels: Sequence[str], value: float) -> Sample | None:
    metric = element.get("metric")
    if isinstance(metric, msgspec.Raw):
        series = _of_text(bytes(metric), tuple(node_labels))
    elif isinstance(metric, Mapping):
        series = _of_labels(metric, node_labels)
    else:
        return None
    if series is None:
        return None
    if subject == "node":
        return Sample(node=series.node, series=series.labels, value=value) if series.node else None
    if not series.namespace or not series.pod:
        return None
    return Sample(node=series.node, namespace=series.namespace, pod=series.pod, series=series.labels, value=value)


class _Series(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the labels of a series tell."""

    node: str
    namespace: str
    pod: str
    labels: frozenset[tuple[str, str]]


@lru_cache(maxsize=SERIES)
def _of_text(text: bytes, node_labels: tuple[str, ...]) -> _Series | None:
    """Labels as they stand in the answer. Kept: a dozen questions a round are about the same series."""
    metric = msgspec.json.decode(text)
    return _of_labels(metric, node_labels) if isinstance(metric, Mapping) else None


def labels_of(element: Mapping[str, Any]) -> Any:
    """The labels of an element, whether they were read yet or not."""
    metric = element.get("metric")
    return msgspec.json.decode(metric) if isinstance(metric, msgspec.Raw) else metric


def _of_labels(metric: Mapping[str, Any], node_labels: Sequence[str]) -> _Series:
    labels = {name: text for name, text in metric.items() if isinstance(text, str) and name != "__name__"}
    return _Series(
        node=next((_host(labels[label]) for label in node_labels if labels.get(label)), ""),
        namespace=labels.get("namespace", ""),
        pod=labels.get("pod", ""),
        labels=frozenset(labels.items()),
    )


def _host(text: str) -> str:
    name, colon, port = text.rpartition(":")
    return name if colon and _PORT.fullmatch(colon + port) else text


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"
