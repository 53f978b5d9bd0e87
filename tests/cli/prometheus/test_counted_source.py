"""Queries to Prometheus that are counted."""

from typing import Any

from collector.sources_in_memory import FakeSource, Usage

from equipoise.cli.progress import Activity
from equipoise.cli.prometheus.counted_source import CountedPromql, CountedSource
from equipoise.collector.decisions.pressure.pressure_query import NODE_EXPORTER, PressureQuery
from equipoise.collector.decisions.query import MetricQuery, Sample
from equipoise.collector.sources import MetricSource, PressureSource
from equipoise.testbed.memory.clock import ManualClock


async def test_every_query_of_a_source_is_counted() -> None:
    activity, clock = Activity("measuring", lambda _: None), ManualClock()
    fake: Any = FakeSource(clock=clock, nodes={"a": Usage()}, pressures={"cpu": 0.1})
    source: MetricSource = CountedSource(fake, activity)
    query = MetricQuery(subject="node", resource="cpu", aggregate="mean", length=300.0, at=clock.now())

    assert clock.now() == await source.time()
    assert ["a"] == [sample.node for sample in await source.query(query)]
    assert isinstance(source, PressureSource)
    await source.pressure(PressureQuery(subject="node", length=300.0, at=clock.now(), exporter=NODE_EXPORTER))
    source.close()

    assert ("measuring: 3 of 3 queries", True) == (activity.text, fake.closed)


async def test_queries_in_the_language_of_the_user_are_counted() -> None:
    class Promql:
        node_labels = ("node",)

        async def samples(self, promql: str, subject: str, **_: Any) -> list[Sample]:
            return []

    activity = Activity("measuring", lambda _: None)
    own: Any = Promql()
    source = CountedPromql(own, activity)
    assert [] == await source.samples("up", "node", at=0.0)
    assert ("measuring: 1 of 1 queries", ("node",)) == (activity.text, source.node_labels)
