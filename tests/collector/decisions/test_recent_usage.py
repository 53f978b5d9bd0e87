"""What nodes with new pods have used in the last few scrapes."""

import math
from collections.abc import Mapping

import pytest
from builders import GIB, NOW, a_placed_pod
from collector.collectors import World, a_node, a_pod
from collector.sources_in_memory import Usage

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.query import MetricQuery, Origin, ResourceName, Sample
from equipoise.collector.decisions.recent_usage import has_new_pods, recent_length, recent_usage
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.window import MeasurementTarget
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes.client import NODES, PODS

TARGET = MeasurementTarget(since=0.0, capacity=Resources(cpu=10.0, memory=64 * GIB))
KNOWN: Mapping[ResourceName, Mapping[str, NodeReading]] = {
    "cpu": {"a": NodeReading(mean=2.0, sampled_at=NOW)}, "memory": {"a": NodeReading(mean=8.0, sampled_at=NOW)}
}  # fmt: skip


def a_sample(value: float, node: str = "a", series: str = "1") -> Sample:
    return Sample(origin=Origin(node=node), series=series, value=value)


def means_of_nodes(world: World, length: float) -> set[tuple[ResourceName, float]]:
    """Resource and time of the queries over this many seconds."""
    return {
        (query.resource, query.at)
        for query in world.source.queries
        if (query.subject, query.aggregate, query.length) == ("node", "mean", length)
    }


def cpu_of(*samples: Sample) -> float | None:
    found = recent_usage({"a": TARGET}, {"cpu": samples}, KNOWN, NodeNames(), {})
    return found.get("a", Resources()).cpu


def test_a_single_valid_sample_of_a_node_is_its_recent_usage() -> None:
    """Capped at the capacity like every other value."""
    assert cpu_of(a_sample(9.5), a_sample(1.0, "b")) == 9.5
    assert cpu_of(a_sample(10.1)) == 10.0


@pytest.mark.parametrize(
    "samples",
    [
        (),
        (a_sample(math.nan),),
        (a_sample(math.inf),),
        (a_sample(-1.0),),
        (a_sample(20.0),),
        (a_sample(2.0), a_sample(3.0, series="2")),
    ],
)
def test_other_samples_are_unknown(samples: tuple[Sample, ...]) -> None:
    """None of them, no amount, more than the machine has, or two that claim to be the node."""
    assert cpu_of(*samples) is None


def test_what_is_unknown_in_the_shortest_window_is_unknown_here() -> None:
    """It was measured from the same series, which may be broken."""
    assert recent_usage({"a": TARGET}, {"cpu": [a_sample(2.0)]}, {"cpu": {"a": NodeReading()}}, NodeNames(), {}) == {}
    assert recent_usage({"a": TARGET}, {"cpu": [a_sample(2.0)]}, {}, NodeNames(), {}) == {}


@pytest.mark.parametrize(
    ("pod", "new"),
    [
        (a_placed_pod(placed_at=NOW - 90_000, running_since=NOW - 90_000), False),
        (a_placed_pod(placed_at=NOW - 400, running_since=NOW - 200), True),
        (a_placed_pod(placed_at=NOW - 10, running_since=None), True),
        (a_placed_pod(placed_at=NOW - 90_000, running_since=None), False),
    ],
    ids=["long there", "began to run", "placed", "never starts"],
)
def test_a_pod_is_new_until_the_shortest_window_contains_it(pod: PlacedPod, new: bool) -> None:
    assert has_new_pods([pod], NOW - 300) == new


@pytest.mark.parametrize(("interval", "length"), [(15.0, 45.0), (60.0, 180.0), (100.0, 0.0), (None, 0.0)])
def test_three_scrapes_are_measured_if_the_shortest_window_is_longer(interval: float | None, length: float) -> None:
    assert recent_length(interval, 300.0) == length


async def test_a_node_with_a_new_pod_has_its_recent_usage(world: World) -> None:
    """One query for each resource and round, and none while all pods are known. It is not that of the window."""
    await world.advance(30)
    assert means_of_nodes(world, 45.0) == set()
    assert {message.recent for message in world.nodes().values()} == {None}

    world.source.queries.clear()
    world.kube.put(PODS, a_pod("new-1", "a", age=-30))
    await world.advance(30)
    recent = world.nodes()["a"].recent

    assert recent is not None
    assert (recent.length, recent.mean) == (45.0, Resources(cpu=2.0, memory=8 * GIB))
    assert recent.sampled_at == world.nodes()["a"].windows["5m"].sampled_at
    assert world.nodes()["b"].recent is None
    assert means_of_nodes(world, 45.0) == means_of_nodes(world, 300.0)

    await world.advance(360)
    assert world.nodes()["a"].recent is None


async def test_without_an_answer_the_recent_usage_is_unknown(world: World) -> None:
    """The windows are published as before, the round is complete, and the failure is named while it lasts."""
    world.kube.put(PODS, a_pod("new-1", "a", age=0))
    world.source.fails = lambda query: query.length == 45.0
    await world.advance(30)

    assert world.nodes()["a"].recent is None
    assert world.nodes()["a"].windows["5m"].mean.cpu == 2.0
    assert "cpu of nodes in the last scrapes: too many samples" in world.health.problems["prometheus"]

    world.source.fails = lambda query: False
    await world.advance(30)
    assert world.health.problems == {}


async def test_a_source_that_has_no_such_values_is_not_asked(world: World) -> None:
    world.kube.put(PODS, a_pod("new-1", "a", age=0))
    world.source.rejects = lambda query: "not supported" if query.length == 45.0 else ""
    await world.advance(30)

    assert means_of_nodes(world, 45.0) == set()
    assert world.nodes()["a"].recent is None
    assert world.health.problems == {}


async def test_a_node_with_too_few_scrapes_has_no_recent_usage(world: World) -> None:
    """It is scraped less often than the others."""
    world.kube.put(NODES, a_node("c"))
    world.source.nodes["c"] = Usage(interval=60.0)
    await world.advance(1_830)  # then intervals are measured again
    world.kube.put(PODS, a_pod("new-1", "c", age=-1_830))
    await world.advance(30)

    assert world.nodes()["c"].windows["5m"].mean.cpu == 2.0
    assert world.nodes()["c"].recent is None


def test_recorded_counters_are_too_rare_for_a_mean_of_three_scrapes() -> None:
    """Two of them may be in 45 s, or one: the scraped ones are used."""
    query = MetricQuery(subject="node", length=45.0, at=NOW, min_samples=2.0)
    recorded, scraped = (
        PROFILES[name](None).cpu["node"].promql(query, {}) for name in ("recording-rules", "kube-prometheus")
    )

    assert recorded == scraped
