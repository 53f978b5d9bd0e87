"""From a Prometheus answer to samples. Whatever comes, nothing here turns it into a 0 that was not measured.

A fault of the whole answer (an error, a warning, another type of result) is a SourceError: that question is unknown.
A fault of one element makes that element's value NaN, so that it is seen and judged as what it is: not a number.
"""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from equipoise.collector.questions import Sample, SourceError, Subject

# What Prometheus writes, and no more: float() also reads "1_0", blanks and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PORT = re.compile(r":\d{1,5}", re.ASCII)


def result(document: Any, kind: str) -> Any:
    """The result of an answer, if it is whole and of this resultType; else SourceError."""
    if not isinstance(document, Mapping):
        raise SourceError("the answer is no JSON object: is this the address of a Prometheus?")
    if document.get("status") != "success":
        raise SourceError(f"the query failed: {_short(document.get('error') or document.get('status'))}")
    for key in ("warnings", "isPartial"):
        if document.get(key):
            raise SourceError(f"the answer may be partial ({key}: {_short(document[key])})")
    data = document.get("data")
    found = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or found != kind:
        raise SourceError(f"the answer holds a {_short(found)} where a {kind} was asked for")
    return data.get("result")


def number(value: Any) -> float:
    """A sample's value; NaN for what is none, infinity for what is."""
    if not isinstance(value, str):
        return math.nan
    if _NUMBER.fullmatch(value):
        return float(value)
    return {"+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}.get(value, math.nan)


def moment(answer: Any) -> float:
    """The time that `time()` gave; SourceError when it is no time."""
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
    if not isinstance(metric, Mapping):
        return None
    labels = {name: text for name, text in metric.items() if isinstance(text, str) and name != "__name__"}
    node = next((_host(labels[label]) for label in node_labels if labels.get(label)), "")
    namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
    series = frozenset(labels.items())
    if subject == "node":
        return Sample(node=node, series=series, value=value) if node else None
    return Sample(node=node, namespace=namespace, pod=pod, series=series, value=value) if namespace and pod else None


def _host(text: str) -> str:
    name, colon, port = text.rpartition(":")
    return name if colon and _PORT.fullmatch(colon + port) else text


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"
