"""From a Prometheus answer to samples. Whatever comes, nothing here turns it into a 0 that was not measured.

A fault of the whole answer (an error, a warning, another type of result) is a SourceError: that question is unknown.
A fault of one element makes that element's value NaN, so that it is seen and judged as what it is: not a number.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec

from equipoise.collector.decisions.query import Sample, SourceError, Subject, series_of
from equipoise.collector.sources.document import Element

_NUMBER = "0123456789+-.eE"
"""What Prometheus writes numbers with: float() also reads "1_0", blanks, words and digits of other scripts."""

_REMARK = "PromQL info:"
"""So begins what a PromQL engine remarks about a query, as that the name of a counter is unusual."""

REMEMBERED = 600.0
"""Seconds for which labels that no answer has had since are remembered, and up to as many more."""

_PORT = re.compile(r":\d{1,5}", re.ASCII)


_READ = msgspec.json.Decoder()


def result(document: Any, *kinds: str) -> Any:
    """The result of an answer, if it is whole and of one of these resultTypes; else SourceError."""
    if not isinstance(document, Mapping):
        raise SourceError("the answer is no JSON object: is this the address of a Prometheus?")
    if document.get("status") != "success":
        raise SourceError(f"the query failed: {_short(document.get('error') or document.get('status'))}")
    for key, told in (("warnings", _warnings(document.get("warnings"))), ("isPartial", document.get("isPartial"))):
        if told:
            raise SourceError(f"the answer may be partial ({key}: {_short(told)})")
    data = document.get("data")
    found = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or found not in kinds:
        raise SourceError(f"the answer holds a {_short(found)} where a {kinds[0]} was asked for")
    return data.get("result")


def _warnings(told: Any) -> Any:
    """The warnings without remarks about the query: Prometheus has these in `infos`, Thanos among its warnings."""
    if not isinstance(told, list):
        return told
    return [warning for warning in told if not (isinstance(warning, str) and warning.startswith(_REMARK))]


def number(value: Any) -> float:
    """A sample's value; NaN for what is none, infinity for what is."""
    if not isinstance(value, str):
        return math.nan
    if not value.strip(_NUMBER):
        try:
            return float(value)
        except ValueError:
            return math.nan
    return {"+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}.get(value, math.nan)


class _Series(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the labels of a series tell."""

    node: str
    namespace: str
    pod: str
    labels: str


def moment(answer: Any) -> float:
    """The time that `time()` gave; SourceError when it is no time.

    VictoriaMetrics answers with a vector of one element without labels where Prometheus answers with a scalar.
    """
    if isinstance(answer, list) and len(answer) == 2:
        value = number(answer[1])
    else:
        value = next(map(_instant, elements(answer)), math.nan) if isinstance(answer, list) else math.nan
    if not math.isfinite(value) or value <= 0:
        raise SourceError("the answer to time() is no time: is this the address of a Prometheus?")
    return value


def vector(answer: Any, subject: Subject, labels: "Labels") -> list[Sample]:
    """Samples of an instant vector. Elements without names (of node, or of namespace and pod) are left out."""
    return [
        _sample(series, subject, _instant(element))
        for element in elements(answer)
        if (series := labels.named(element, subject)) is not None
    ]


def spacings(answer: Any, subject: Subject, labels: "Labels") -> list[Sample]:
    """Per series of a range vector the median seconds between raw samples; series of fewer than two are left out."""
    samples = []
    for element in elements(answer):
        times = _times(element.values)
        gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
        series = labels.named(element, subject)
        if gaps and series is not None:
            samples.append(_sample(series, subject, median(gaps)))
    return samples


def elements(answer: Any) -> Iterator[Element]:
    """The series of a result; what is none is passed over."""
    if not isinstance(answer, list):
        raise SourceError("the answer's result is no list")
    for element in answer:
        if isinstance(element, Element):
            yield element
        elif isinstance(element, Mapping):
            yield Element(**{name: element.get(name) for name in Element.__struct_fields__})


def _read(part: Any) -> Any:
    """A part of an element; None for what cannot be read: one label must not cost all the others."""
    if not isinstance(part, msgspec.Raw | bytes):
        return part
    try:
        return _READ.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _instant(element: Element) -> float:
    pair = _read(element.value)
    return number(pair[1]) if isinstance(pair, list) and len(pair) == 2 else math.nan


def _times(values: Any) -> list[float]:
    if not isinstance(values, list):
        return []
    moments = [pair[0] for pair in values if isinstance(pair, list) and len(pair) == 2]
    return [float(at) for at in moments if isinstance(at, int | float) and not isinstance(at, bool)]


def _sample(series: _Series, subject: Subject, value: float) -> Sample:
    if subject == "node":
        return Sample(node=series.node, series=series.labels, value=value)
    return Sample(node=series.node, namespace=series.namespace, pod=series.pod, series=series.labels, value=value)


class Labels:
    """Reads the labels of series, each once: every question is about the same series."""

    def __init__(self, node_labels: Sequence[str]) -> None:
        """`node_labels`: those that may name the node, the first one that is there counts."""
        self._node_labels = node_labels
        self._young: dict[bytes, _Series | None] = {}
        self._old: dict[bytes, _Series | None] = {}
        self._turned_at = -math.inf

    def turn(self, now: float) -> None:
        """Forget series that were in no answer of late; `now` is monotonic."""
        if now - self._turned_at >= REMEMBERED:
            self._old, self._young, self._turned_at = self._young, {}, now

    def named(self, element: Element, subject: Subject) -> _Series | None:
        """What its labels tell; None when they do not tell what it is about."""
        series = self._of(element.metric)
        if series is None:
            return None
        return series if (series.node if subject == "node" else series.namespace and series.pod) else None

    def _of(self, metric: Any) -> _Series | None:
        if not isinstance(metric, msgspec.Raw):
            return _of_labels(metric, self._node_labels) if isinstance(metric, Mapping) else None
        text = bytes(metric)
        if text in self._young:
            return self._young[text]
        series = self._old.get(text)
        if series is None:
            labels = _read(text)
            series = _of_labels(labels, self._node_labels) if isinstance(labels, Mapping) else None
        self._young[text] = series
        return series


def labels_of(element: Element) -> Any:
    """The labels of an element, whether they were read yet or not."""
    return _read(element.metric)


def _of_labels(metric: Mapping[str, Any], node_labels: Sequence[str]) -> _Series:
    labels = {name: text for name, text in metric.items() if isinstance(text, str) and name != "__name__"}
    return _Series(
        node=sys.intern(next((_host(labels[label]) for label in node_labels if labels.get(label)), "")),
        namespace=sys.intern(labels.get("namespace", "")),
        pod=labels.get("pod", ""),
        labels=series_of(labels),
    )


def _host(text: str) -> str:
    name, colon, port = text.rpartition(":")
    return name if colon and _PORT.fullmatch(colon + port) else text


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"
