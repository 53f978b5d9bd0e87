"""Which labels are kept in memory between two responses about the same series."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.collector.decisions.query import MetricQuery, Sample
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.sources.prometheus.promql_source import PrometheusPromql
from equipoise.runtime.process.clock import SystemClock

POD = {"namespace": "shop", "pod": "web", "node": "a"}
RESPONSE = json.dumps(
    {"status": "success", "data": {"resultType": "vector", "result": [{"metric": POD, "value": [1, "2"]}]}}
).encode()
SETTINGS = PrometheusSettings(url="http://prometheus:9090")


@pytest.fixture(autouse=True)
def responding(monkeypatch: pytest.MonkeyPatch) -> None:
    async def query(_: object, promql: str, read: Callable[[Any], list[Sample]], *, at: float) -> list[Sample]:
        return read(decode_document(RESPONSE))

    monkeypatch.setattr(PrometheusClient, "query", query)


@pytest.mark.parametrize("rare", [False, True])
async def test_labels_of_series_that_are_rarely_queried_are_not_kept(rare: bool) -> None:
    """Those of the pods of other shards, which are queried once an hour."""
    source = PrometheusSource(SETTINGS, memory="workingSet", clock=SystemClock())
    query = MetricQuery(subject="pod", length=300.0, at=1_000.0, rare=rare)
    (first,), (second,) = await source.query(query), await source.query(query)
    source.close()

    assert first == second
    assert rare == (first.series is not second.series)


@pytest.mark.parametrize("pods", [None, {("shop", "web")}])
async def test_labels_of_all_pods_are_not_kept(pods: set[tuple[str, str]] | None) -> None:
    """A response about further resources of pods may be about those of all shards."""
    source = PrometheusPromql(SETTINGS, SystemClock())
    (first,) = await source.samples("sent", "pod", at=1_000.0, pods=pods)
    (second,) = await source.samples("sent", "pod", at=1_000.0, pods=pods)
    source.close()

    assert first == second
    assert (pods is not None) == (first.series is not second.series)
