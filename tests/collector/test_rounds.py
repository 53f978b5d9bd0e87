"""What a source never answers is unknown, and no failure."""

import pytest
from builders import GIB, NOW
from collector.sources_in_memory import INTERVAL, FakeSource, Usage

from equipoise.collector.decisions.query import Ask
from equipoise.collector.decisions.sample_validation import Criteria, Intervals, Known
from equipoise.collector.shell.rounds import find_intervals, measure_nodes, measure_pods
from equipoise.contracts.messages.resources import Resources
from equipoise.testbed.memory.clock import ManualClock

CEILING = Resources(cpu=16.0, memory=64 * GIB)
INTERVALS = Intervals(usual=INTERVAL)
CRITERIA = Criteria(at=NOW, length=3_600.0, coverage=0.8, life=180.0, reach=300.0)
POD = ("shop", "web-1")


def a_source() -> FakeSource:
    return FakeSource(ManualClock(NOW), nodes={"a": Usage()}, pods={(*POD, "a"): Usage(cpu=0.5)})


@pytest.mark.parametrize("what", ["mean", "count", "newest"])
async def test_a_resource_that_is_never_measured_is_unknown_and_says_why(what: str) -> None:
    """Its other questions are not asked, the other resource is measured, and the round is whole."""
    source = a_source()
    source.never = lambda ask: "no such metric" if (ask.resource, ask.what) == ("memory", what) else ""
    found = await measure_nodes(source, {"a": Known(since=0.0, ceiling=CEILING)}, CRITERIA, INTERVALS)

    assert (2.0, None) == (found.readings["cpu"]["a"].mean, found.readings["memory"]["a"].mean)
    assert "memory: no such metric" == found.readings["memory"]["a"].why
    assert {} == found.failed
    assert {"cpu"} == {ask.resource for ask in source.asked}


async def test_a_statistic_that_is_never_answered_is_left_out() -> None:
    """The mean beside it is known."""
    source = a_source()
    source.never = lambda ask: "no" if ask.what == "p95" else ""
    found = await measure_nodes(source, {"a": Known(since=0.0, ceiling=CEILING)}, CRITERIA, INTERVALS, ["p95"])

    assert (2.0, {}) == (found.readings["cpu"]["a"].mean, found.readings["cpu"]["a"].statistics)


async def test_pods_that_are_never_measured_are_absent() -> None:
    """They do not read as idle."""
    source = a_source()
    source.never = lambda ask: "no pods" if ask.resource == "cpu" else ""
    found = await measure_pods(source, {POD: Known(since=0.0, ceiling=CEILING, node="a")}, CRITERIA, INTERVALS)

    assert (None, False) == (found.usage[POD].cpu, found.usage[POD].memory is None)
    assert {} == found.failed


async def test_pods_are_counted_by_the_source() -> None:
    """Where samples come at one interval, means of pods with too few are not even told."""
    source = a_source()
    source.pods["shop", "gaps", "a"] = Usage(coverage=0.7)
    known = {name: Known(since=0.0, ceiling=CEILING, node="a") for name in (POD, ("shop", "gaps"))}
    found = await measure_pods(source, known, CRITERIA, INTERVALS)

    assert {POD} == found.usage.keys()
    assert {("mean", 192.0)} == {(ask.what, ask.least) for ask in source.asked}


async def test_pods_are_counted_one_by_one_where_intervals_differ() -> None:
    """What is enough on one node is a gap on another."""
    source = a_source()
    source.pods = {("shop", name, name): Usage(interval=60.0) for name in ("a", "b")}
    known = {("shop", name): Known(since=0.0, ceiling=CEILING, node=name) for name in ("a", "b")}
    found = await measure_pods(source, known, CRITERIA, Intervals(by_node={"b": 60.0}, usual=15.0))

    assert {("shop", "b")} == found.usage.keys()


async def test_spacing_is_asked_of_memory_where_cpu_is_not_measured() -> None:
    """And of nothing where neither is."""
    source = a_source()
    source.never = lambda ask: "no" if ask.resource == "cpu" else ""

    assert INTERVAL == (await find_intervals(source, 300.0, NOW, "pod")).of("a")
    source.never = lambda ask: "no"
    assert (await find_intervals(source, 300.0, NOW)).usual is None
    assert {Ask(subject="pod", resource="memory", what="spacing", length=300.0, at=NOW)} == set(source.asked)
