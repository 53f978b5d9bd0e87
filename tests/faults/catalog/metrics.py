"""Metrics with the real collector, and Prometheus behind a proxy."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import BusError
from faults import cluster_setup
from faults.background import background
from faults.catalog.fault import Extent, fault
from faults.fakes import take_lease
from faults.fault_proxy import Fault, rewrite
from faults.history import ScoreResponse, Span
from faults.rig import Inconclusive, Rig


@asynccontextmanager
async def real_services(rig: Rig, counts: Mapping[ServiceName, int] = {}) -> AsyncIterator[None]:
    """A collector, a scorer, a binder and a descheduler, or more; only the collector publishes. Two nodes are hot."""
    rig.descheduler.epoch = None
    await rig.stop_fake_collector()
    await rig.purge_outcomes()
    await _pack(rig)
    services: Mapping[ServiceName, int] = {"collector": 1, "scorer": 1, "binder": 1, "descheduler": 1, **counts}
    await asyncio.gather(*(rig.start(service, count) for service, count in services.items()))
    try:
        async with background(request_scores(rig)):
            yield
            rig.descheduler.epoch = None
            await rig.all_settled()
            await rig.converge()
    finally:
        rig.stop_programs()
        rig.collector.take_over()
        rig.collector.publishing = True
        rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
        # Pending intents are settled by a binder that receives the fake collector's messages.
        await rig.recreate_consumer()
        await rig.start("binder", 1)


async def with_real_metrics(
    rig: Rig, extent: Extent, break_metrics: Callable[[], Any], repair: Callable[[], Any] | None = None
) -> None:
    async with real_services(rig):
        await rig.evictions(2)
        await without_coverage(rig, break_metrics, repair)


async def without_coverage(
    rig: Rig, break_metrics: Callable[[], Any], repair: Callable[[], Any] | None = None, *, scored: bool = False
) -> None:
    """Too few nodes are measured for some seconds; then evictions continue. `scored`: enough for scores."""
    await asyncio.to_thread(break_metrics)  # a component may take seconds to stop
    begin = rig.clock.now() + cluster_setup.FRESHNESS + 3.0
    await rig.propose_as_leader()
    await rig.until_time(begin)
    await rig.outcomes(5)
    await rig.until_time(begin + cluster_setup.SCORE_LAG + 3.0)
    if not any(found.at > begin + cluster_setup.SCORE_LAG for found in rig.recorder.scores):
        raise Inconclusive("the scorer did not respond")
    spans = rig.recorder.uncovered_for_evictions if scored else rig.recorder.uncovered
    spans.append(Span(begin=begin, end=rig.clock.now()))
    await asyncio.to_thread(repair or rig.prometheus.clear)
    await rig.evictions(1)


async def _pack(rig: Rig) -> None:
    """All pods with a high usage are placed on two nodes."""
    others = cluster_setup.NODES[2:]
    for node in others:
        await _cordon(rig, node, True)
    for name in cluster_setup.HEAVY:
        await rig.api.request("DELETE", f"{cluster_setup.PODS}?labelSelector=app%3D{name}")
    await asyncio.sleep(0.5)
    await rig.all_replicas_ready()
    for node in others:
        await _cordon(rig, node, False)


async def _cordon(rig: Rig, node: str, cordoned: bool) -> None:
    await rig.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}})


async def request_scores(rig: Rig) -> None:
    pod = PodDemand(
        namespace=cluster_setup.NAMESPACE, name="new", uid="new", requests=Resources(cpu=0.1, memory=2.0**28)
    )
    request = ExplainRequest(pod=pod, nodes=list(cluster_setup.NODES))
    while True:
        with suppress(BusError):
            requested_at = rig.clock.now()
            explanation = await rig.bus.request(subjects.SCORE_EXPLAIN, request, Explanation, timeout=1.0)
            neutral = explanation.neutral or len({node.extender_score for node in explanation.nodes}) == 1
            rig.recorder.scores.append(ScoreResponse(at=requested_at, neutral=neutral))
        await asyncio.sleep(0.5)


USAGE = r"query=(rate|avg_over_time)(\(|%28)"
"""Queries of usage itself."""

UNKNOWN = frozenset(cluster_setup.NODES[4:])


def missing(nodes: Collection[str]) -> Fault:
    """The nodes are missing in every response of Prometheus."""

    def without(document: Any) -> Any:
        result = document["data"]["result"]
        if document["data"]["resultType"] in ("vector", "matrix"):
            result = [series for series in result if series["metric"].get("node") not in nodes]
        return document | {"data": document["data"] | {"result": result}}

    return rewrite(body=without)


def without_some(rig: Rig) -> None:
    """Some nodes are missing in every response."""
    rig.prometheus.rule(missing(UNKNOWN), path="/query")


async def few_measured(rig: Rig, extent: Extent) -> None:
    """Six of ten nodes are missing in every response of Prometheus."""
    await with_real_metrics(rig, extent, lambda: without_some(rig))


async def one_missing(rig: Rig, extent: Extent) -> None:
    """One of ten nodes is missing, and evictions continue; then three are missing, and evictions stop."""
    idle = cluster_setup.NODES[9:]  # the hot nodes are the first ones
    async with real_services(rig):
        await rig.evictions(2)
        rig.prometheus.rule(missing(idle), path="/query")
        await asyncio.sleep(cluster_setup.FRESHNESS + 3.0)  # until its samples are no longer fresh
        await rig.propose_as_leader()
        await rig.evictions(extent.evictions)
        rig.prometheus.clear()
        three = missing(cluster_setup.NODES[7:])
        await without_coverage(rig, lambda: rig.prometheus.rule(three, path="/query"), scored=True)


async def none_measured(rig: Rig, extent: Extent) -> None:
    """Every node is missing in every response of Prometheus."""
    await with_real_metrics(rig, extent, lambda: rig.prometheus.rule(missing(cluster_setup.NODES), path="/query"))


def changed_series(change: Callable[[list[Any], int], list[Any]]) -> Fault:
    """The series of six of ten nodes are replaced by `change`, which gets the number of the node too."""

    def body(document: Any) -> Any:
        if document["data"]["resultType"] != "vector":
            return document
        result = []
        for series in document["data"]["result"]:
            node = series["metric"].get("node")
            result += change([series], cluster_setup.NODES.index(node)) if node in UNKNOWN else [series]
        return document | {"data": document["data"] | {"result": result}}

    return rewrite(body=body)


def with_value(series: Any, value: str) -> Any:
    return series | {"value": [series["value"][0], value]}


def not_a_number(rig: Rig) -> None:
    """The usage of some nodes is NaN."""
    nan = changed_series(lambda found, _: [with_value(series, "NaN") for series in found])
    rig.prometheus.rule(nan, path=USAGE)


async def not_numbers(rig: Rig, extent: Extent) -> None:
    """The usage of six of ten nodes is NaN; the times and numbers of its samples are valid."""
    await with_real_metrics(rig, extent, lambda: not_a_number(rig))


IMPOSSIBLE = ("+Inf", "-Inf", "-0.5", "1e12")
"""Neither CPU nor memory can have them: 1e12 is more than the capacity."""


async def impossible_values(rig: Rig, extent: Extent) -> None:
    """The usage of six of ten nodes is infinite, negative, or above the capacity."""
    impossible = changed_series(
        lambda found, number: [with_value(series, IMPOSSIBLE[number % len(IMPOSSIBLE)]) for series in found]
    )
    await with_real_metrics(rig, extent, lambda: rig.prometheus.rule(impossible, path=USAGE))


async def duplicate_series(rig: Rig, extent: Extent) -> None:
    """Two series of one job claim to be the same node in every response, for six of ten nodes."""

    def twice(found: list[Any], _: int) -> list[Any]:
        return [*found, *(series | {"metric": series["metric"] | {"replica": "2"}} for series in found)]

    await with_real_metrics(rig, extent, lambda: rig.prometheus.rule(changed_series(twice), path="/query"))


async def prometheus_killed(rig: Rig, extent: Extent) -> None:
    """Prometheus is killed and starts with an empty database; in the long form also with the old one."""

    def kill() -> None:
        rig.cluster.kill("prometheus")

    def restart() -> None:
        rig.cluster.restart("prometheus")

    def restart_empty() -> None:
        shutil.rmtree(rig.cluster.directory / "prometheus")
        restart()

    async with real_services(rig):
        await rig.evictions(2)
        if extent.times > 1:
            await without_coverage(rig, kill, restart)
        await without_coverage(rig, kill, restart_empty)


def freeze(rig: Rig) -> None:
    """Every query gets the data of now; the clock of Prometheus continues."""
    at = rig.clock.now()

    def then(query: dict[str, str]) -> dict[str, str]:
        if query.get("query") == "time()":
            return query
        # The newest samples are also searched for after the time of the query.
        return query | {"query": re.sub(r" offset -\w+", "", query["query"]), "time": f"{at:.3f}"}

    rig.prometheus.rule(rewrite(query=then), path="/query")


async def frozen(rig: Rig, extent: Extent) -> None:
    """Prometheus evaluates every query as of one fixed time."""
    await with_real_metrics(rig, extent, lambda: freeze(rig))


FAULTS = (
    fault(few_measured, 20, intents=5, evictions=3),
    fault(one_missing, 20, intents=15, evictions=7),
    fault(none_measured, 20, intents=5, evictions=3),
    fault(not_numbers, 21, intents=5, evictions=3),
    fault(impossible_values, 21, intents=5, evictions=3),
    fault(duplicate_series, 21, intents=5, evictions=3),
    fault(prometheus_killed, 19, intents=5, evictions=3),
    fault(frozen, 22, intents=5, evictions=3),
)
