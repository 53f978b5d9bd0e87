"""Which pods are measured by their samples."""

import math
from typing import Any

import msgspec
from builders import NOW
from collector.samples import CRITERIA, NODE, a_sample

from equipoise.collector.decisions.query import Origin, Sample
from equipoise.collector.decisions.validation.pods import validate_pods
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.window import MeasurementTarget

POD = MeasurementTarget(since=NOW - 1_000, capacity=NODE.capacity, node="a")


def read_one_pod(*means: Sample, count: float = 20, known: MeasurementTarget = POD) -> float | None:
    counts = [
        Sample(origin=Origin(node=s.node), namespace=s.namespace, pod=s.pod, series=s.series, value=count)
        for s in means
    ]
    samples: Any = {"mean": list(means), "count": counts}
    return validate_pods({("shop", "web"): known}, "cpu", samples, CRITERIA)[0].get(("shop", "web"))


def test_pods_are_found_by_namespace_name_and_node() -> None:
    """A recreated pod on another node leaves a series behind, which is ignored."""
    here, there = a_sample(1.5, namespace="shop", pod="web"), a_sample(9.0, "b", namespace="shop", pod="web")

    assert 1.5 == read_one_pod(here)
    assert 1.5 == read_one_pod(here, there)
    assert read_one_pod(there) is None
    assert read_one_pod(a_sample(1.5, namespace="shop", pod="other")) is None


def test_pods_are_validated_like_nodes() -> None:
    """Duplicates, young pods, uncovered windows and impossible values are unknown."""
    here = a_sample(1.5, namespace="shop", pod="web")

    assert read_one_pod(here, a_sample(1.5, namespace="shop", pod="web", job="twin")) is None
    assert read_one_pod(here, count=15) is None
    counts = [
        Sample(origin=Origin(node="a"), namespace="shop", pod="web", series=here.series, value=value)
        for value in (15.0, 20.0)
    ]
    assert {} == validate_pods({("shop", "web"): POD}, "cpu", {"mean": [here], "count": counts}, CRITERIA)[0]
    assert read_one_pod(here, known=MeasurementTarget(since=NOW - 100, capacity=NODE.capacity, node="a")) is None
    assert read_one_pod(a_sample(math.nan, namespace="shop", pod="web")) is None
    assert read_one_pod(a_sample(11.0, namespace="shop", pod="web")) is None


def test_pods_without_counts_are_complete() -> None:
    """The source has left out those with too few samples; everything else is validated."""
    here = a_sample(1.5, namespace="shop", pod="web")
    pods = {("shop", "web"): POD}

    assert {("shop", "web"): 1.5} == validate_pods(pods, "cpu", {"mean": [here]}, CRITERIA)[0]
    assert {} == validate_pods(pods, "cpu", {"mean": [here], "count": []}, CRITERIA)[0]
    unknown = msgspec.structs.replace(CRITERIA, intervals=ScrapeIntervals())
    assert {} == validate_pods(pods, "cpu", {"mean": [here]}, unknown)[0]
