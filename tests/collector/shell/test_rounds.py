"""Rounds of queries to a source that supports only some of them."""

import msgspec
import pytest
from builders import GIB, NOW
from collector.sources_in_memory import INTERVAL, FakeSource, Usage

from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.shell.rounds import measure_nodes, measure_pods
from equipoise.contracts.messages.values.resources import Resources
from equipoise.testbed.memory.clock import ManualClock

CAPACITY = Resources(cpu=16.0, memory=64 * GIB)
CRITERIA = WindowCriteria(
    at=NOW, length=3_600.0, coverage=0.8, max_age=180.0, lookback=300.0, intervals=ScrapeIntervals(default=INTERVAL)
)
POD = ("shop", "web-1")


def a_source() -> FakeSource:
    return FakeSource(ManualClock(NOW), nodes={"a": Usage()}, pods={(*POD, "a"): Usage(cpu=0.5)})


@pytest.mark.parametrize("aggregate", ["mean", "count", "newest"])
async def test_an_unsupported_resource_is_unknown_with_a_reason(aggregate: str) -> None:
    """Its other queries are not run, the other resource is measured, and the round is complete."""
    source = a_source()
    source.rejects = lambda query: (
        "no such metric" if (query.resource, query.aggregate) == ("memory", aggregate) else ""
    )
    found = await measure_nodes(source, {"a": MeasurementTarget(since=0.0, capacity=CAPACITY)}, CRITERIA)

    assert (2.0, None) == (found.readings["cpu"]["a"].mean, found.readings["memory"]["a"].mean)
    assert "memory: no such metric" == found.readings["memory"]["a"].why
    assert {} == found.failed
    assert {"cpu"} == {query.resource for query in source.queries}


async def test_an_unsupported_statistic_is_left_out() -> None:
    """The mean is known."""
    source = a_source()
    source.rejects = lambda query: "no" if query.aggregate == "p95" else ""
    found = await measure_nodes(source, {"a": MeasurementTarget(since=0.0, capacity=CAPACITY)}, CRITERIA, ["p95"])

    assert (2.0, {}) == (found.readings["cpu"]["a"].mean, found.readings["cpu"]["a"].statistics)


@pytest.mark.parametrize(("seconds", "why"), [(16.0, ""), (0.0, "cpu: newest sample lies 15 s in the future")])
async def test_a_slow_source_is_no_clock_that_is_ahead(seconds: float, why: str) -> None:
    """What was scraped while a query waited is as old as the query. `seconds`: the time that the queries took."""
    source = FakeSource(ManualClock(NOW + seconds), nodes={"a": Usage(age=-15.0)})
    found = await measure_nodes(source, {"a": MeasurementTarget(since=0.0, capacity=CAPACITY)}, CRITERIA)
    reading = found.readings["cpu"]["a"]

    assert reading.why == why
    assert (reading.mean, reading.sampled_at) == ((None, None) if why else (2.0, NOW))


async def test_unsupported_pods_are_left_out() -> None:
    """They do not read as idle."""
    source = a_source()
    source.rejects = lambda query: "no pods" if query.resource == "cpu" else ""
    found = await measure_pods(source, {POD: MeasurementTarget(since=0.0, capacity=CAPACITY, node="a")}, CRITERIA)

    assert (None, False) == (found.usage[POD].cpu, found.usage[POD].memory is None)
    assert {} == found.failed


async def test_the_source_leaves_out_pods_with_too_few_samples() -> None:
    """When all samples come at one interval."""
    source = a_source()
    source.pods["shop", "gaps", "a"] = Usage(coverage=0.7)
    known = {name: MeasurementTarget(since=0.0, capacity=CAPACITY, node="a") for name in (POD, ("shop", "gaps"))}
    found = await measure_pods(source, known, CRITERIA)

    assert {POD} == found.usage.keys()
    assert {("mean", 192.0)} == {(query.aggregate, query.min_samples) for query in source.queries}


async def test_pods_are_counted_individually_when_intervals_differ() -> None:
    """A count that is enough on one node is a gap on another."""
    source = a_source()
    source.pods = {("shop", name, name): Usage(interval=60.0) for name in ("a", "b")}
    known = {("shop", name): MeasurementTarget(since=0.0, capacity=CAPACITY, node=name) for name in ("a", "b")}
    intervals = ScrapeIntervals(by_node={"b": 60.0}, default=15.0)
    found = await measure_pods(source, known, msgspec.structs.replace(CRITERIA, intervals=intervals))

    assert {("shop", "b")} == found.usage.keys()
