"""Samples from a Prometheus response. No input, however broken, becomes a 0 that was not measured.

A fault of the whole response (an error, a warning, another type of result) is a SourceError: the result of that query
is unknown. A fault of one element makes the value of that element NaN, which sample validation rejects with a reason.
"""

import math
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import msgspec

from equipoise.collector.decisions.node_names import host_of
from equipoise.collector.decisions.query import Origin, Sample, Scrape, SourceError, Subject, series_name
from equipoise.collector.sources.prometheus.json_document import NOT_JSON, Element, SeriesInParts
from equipoise.collector.state.placement import PodName
from equipoise.contracts.bounds import LATEST

_NUMBER = "0123456789+-.eE"
"""The characters of Prometheus' numbers: float() also accepts "1_0", blanks, words and digits of other scripts."""

_INFO_PREFIX = "PromQL info:"
"""Prefix of hints about a query, such as an unusual name of a counter."""

LABELS_TTL = 600.0
"""The labels of a series are kept for one to two times this many seconds after the last response that contains it."""

_ORIGIN_LABELS = ("job", "service", "endpoint", "metrics_path", "namespace", "instance")

_DECODER = msgspec.json.Decoder()
_ENCODED = (msgspec.Raw, bytes)  # as a constant, because a union would be created for every value


def result_of(document: Any, *types: str) -> Any:
    """The result of a complete response of one of these resultTypes; else SourceError."""
    if not isinstance(document, Mapping):
        raise SourceError("the response is no JSON object: is this the address of a Prometheus?")
    if document.get("status") != "success":
        raise SourceError(f"the query failed: {shortened(document.get('error') or document.get('status'))}")
    for key, value in (("warnings", _warnings(document.get("warnings"))), ("isPartial", document.get("isPartial"))):
        if value:
            raise SourceError(f"the response may be partial ({key}: {shortened(value)})")
    data = document.get("data")
    result_type = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or result_type not in types:
        raise SourceError(f"the response holds a {shortened(result_type)} instead of a {types[0]}")
    return data.get("result")


def _warnings(warnings: Any) -> Any:
    """The warnings without hints about the query: Prometheus has these in `infos`, Thanos among its warnings."""
    if not isinstance(warnings, list):
        return warnings
    return [warning for warning in warnings if not (isinstance(warning, str) and warning.startswith(_INFO_PREFIX))]


def number(value: Any) -> float:
    """A sample's value; NaN for anything that is not a number."""
    if not isinstance(value, str):
        return math.nan
    if not value.strip(_NUMBER):  # it has no other characters
        try:
            return float(value)
        except ValueError:
            return math.nan
    return {"+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}.get(value, math.nan)


class _SeriesLabels(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    namespace: str
    pod: str
    name: str
    of_node: Origin
    of_pod: Origin


def time_of(result: Any) -> float:
    """The result of `time()`; SourceError when it is no time.

    VictoriaMetrics returns a vector of one element without labels, Prometheus a scalar.
    """
    if isinstance(result, list) and len(result) == 2:
        value = number(result[1])
    else:
        value = next(map(_instant, elements(result)), math.nan) if isinstance(result, list) else math.nan
    if not 0 < value <= LATEST:
        raise SourceError("the result of time() is no time: is this the address of a Prometheus?")
    return value


def vector(
    result: Any,
    subject: Subject,
    labels: "LabelCache",
    *,
    unnamed: bool = False,
    pods: Container[PodName] | None = None,
) -> list[Sample]:
    """Samples of an instant vector. Elements without a name (of node, or of namespace and pod) are left out, unless
    `unnamed`, and so are pods that are not among `pods`, unless it is None."""
    return [
        _sample(series, subject, _instant(element))
        for element in elements(result)
        if (series := labels.of(element, subject, unnamed=unnamed)) is not None
        and (pods is None or (series.namespace, series.pod) in pods)
    ]


def spacings(result: Any, subject: Subject, labels: "LabelCache") -> list[Sample]:
    """Median seconds between raw samples, by series of a range vector; series with fewer than two samples are left
    out."""
    samples = []
    for element in elements(result):
        times = _times(decoded(element.values))
        gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
        series = labels.of(element, subject)
        if gaps and series is not None:
            samples.append(_sample(series, subject, median(gaps)))
    return samples


def elements(result: Any) -> Iterator[Element]:
    """The series of a result; anything else in it is skipped."""
    if not isinstance(result, list | SeriesInParts):
        raise SourceError("the response's result is no list")
    try:
        for element in result:
            if isinstance(element, Element):
                yield element
            elif isinstance(element, Mapping):
                yield Element(**{name: element.get(name) for name in Element.__struct_fields__})
    except NOT_JSON:
        raise SourceError("the response is no JSON: is this the address of a Prometheus?") from None


def decoded(part: Any) -> Any:
    """A part of an element; None when it cannot be decoded: one bad label must not cost all the others."""
    if not isinstance(part, _ENCODED):
        return part
    try:
        return _DECODER.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _instant(element: Element) -> float:
    pair = decoded(element.value)
    return number(pair[1]) if isinstance(pair, list) and len(pair) == 2 else math.nan


def _times(values: Any) -> list[float]:
    if not isinstance(values, list):
        return []
    times = [pair[0] for pair in values if isinstance(pair, list) and len(pair) == 2]
    return [float(at) for at in times if isinstance(at, int | float) and not isinstance(at, bool) and 0 < at <= LATEST]


def _sample(series: _SeriesLabels, subject: Subject, value: float) -> Sample:
    if subject == "node":
        return Sample(origin=series.of_node, series=series.name, value=value)
    return Sample(origin=series.of_pod, namespace=series.namespace, pod=series.pod, series=series.name, value=value)


class LabelCache:
    """Decodes the labels of each series once: every query is about the same series."""

    def __init__(self, node_labels: Sequence[str], *, keep: bool = True) -> None:
        """`node_labels`: those that may name the node; the first one present is used. `keep`: False for a single
        response, if no later one is about the same series."""
        self._node_labels = node_labels
        self._keep = keep
        self._recent: dict[bytes, _SeriesLabels | None] = {}
        self._old: dict[bytes, _SeriesLabels | None] = {}
        self._origins: dict[Origin, Origin] = {}
        self._rotated_at = -math.inf

    def rotate(self, now: float) -> None:
        """Delete series that were in no recent response; `now` is monotonic."""
        if now - self._rotated_at >= LABELS_TTL:
            self._old, self._recent, self._rotated_at = self._recent, {}, now
            self._origins = {}

    def of(self, element: Element, subject: Subject, *, unnamed: bool = False) -> _SeriesLabels | None:
        """The labels of a series; None when they do not identify its node or pod, unless `unnamed`."""
        series = self._labels(element.metric)
        if series is None or unnamed:
            return series
        identified = series.of_node.node if subject == "node" else series.namespace and series.pod
        return series if identified else None

    def _labels(self, metric: Any) -> _SeriesLabels | None:
        if not isinstance(metric, msgspec.Raw):
            return self._parse(metric) if isinstance(metric, Mapping) else None
        text = bytes(metric)
        if text in self._recent:
            return self._recent[text]
        series = self._old.get(text)
        if series is None:
            labels = decoded(text)
            series = self._parse(labels) if isinstance(labels, Mapping) else None
        if self._keep:
            self._recent[text] = series
        return series

    def _parse(self, metric: Mapping[str, Any]) -> _SeriesLabels:
        labels = {name: text for name, text in metric.items() if isinstance(text, str) and name != "__name__"}
        label = next((label for label in self._node_labels if labels.get(label)), "")
        text = labels.get(label, "")
        node = host_of(text)
        job, service, endpoint, path, namespace, target = (labels.get(name, "") for name in _ORIGIN_LABELS)
        return _SeriesLabels(
            namespace=sys.intern(namespace),
            pod=labels.get("pod", ""),
            name=series_name(labels),
            of_node=self._origin(node, Scrape(job, service, endpoint, path, namespace), target, label, text),
            of_pod=self._origin(node, Scrape(job, service, endpoint, path), target, label, text),
        )

    def _origin(self, node: str, scrape: Scrape, target: str, label: str, text: str) -> Origin:
        origin = Origin(node=node, scrape=scrape, target=target, label=label, text=sys.intern(text))
        return self._origins.setdefault(origin, origin)


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else text[:299] + "…"


def identified_by_name(samples: Iterable[Sample]) -> list[Sample]:
    """The samples with series that are identified by node, namespace and pod alone."""
    return [
        msgspec.structs.replace(
            sample, series=series_name({"node": sample.node, "namespace": sample.namespace, "pod": sample.pod})
        )
        for sample in samples
    ]
