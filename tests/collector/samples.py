"""Samples of a node or pod, and the window in which they are validated."""

from builders import GIB, NOW

from equipoise.collector.decisions.query import Origin, Sample, series_name
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.contracts.messages.values.resources import Resources

CRITERIA = WindowCriteria(
    at=NOW, length=300.0, coverage=0.8, max_age=180.0, lookback=300.0, intervals=ScrapeIntervals(default=15.0)
)
NODE = MeasurementTarget(since=NOW - 90_000, capacity=Resources(cpu=10.0, memory=64 * GIB))


def a_sample(value: float, node: str = "a", namespace: str = "", pod: str = "", **labels: str) -> Sample:
    named = {"node": node, "namespace": namespace, "pod": pod, **labels}
    return Sample(origin=Origin(node=node), namespace=namespace, pod=pod, series=series_name(named), value=value)
