"""Metrics with the real collector, and Prometheus behind a proxy."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.fakes import epoch_of, take_lease
from faults.fault_proxy import (
    rewrite,
)
from faults.history import ScoreResponse, Span
from faults.rig import Inconclusive, Rig


async def with_real_metrics(rig: Rig, extent: Extent, break_metrics: Callable[[], Any]) -> None:
    rig.descheduler.epoch = None
    rig.collector.publishing = False
    await rig.purge_outcomes()
    await _pack(rig)
    await asyncio.gather(
        rig.start("collector"), rig.start("scorer"), rig.start("binder", 1), rig.start("descheduler", 1)
    )
    requesting = asyncio.create_task(request_scores(rig))
    try:
        await rig.evictions(2)
        break_metrics()
        begin = rig.clock.now() + cluster_setup.FRESHNESS + 3.0
        # The fake descheduler proposes too; it does not check coverage.
        lease = await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN)
        rig.descheduler.epoch = epoch_of(lease)
        await rig.until(lambda: rig.clock.now() > begin, "coverage is lost")
        await rig.outcomes(5)
        await rig.until(lambda: rig.clock.now() > begin + cluster_setup.SCORE_LAG + 3.0, "seconds without coverage")
        if not any(found.at > begin + cluster_setup.SCORE_LAG for found in rig.recorder.scores):
            raise Inconclusive("the scorer did not respond")
        rig.recorder.uncovered.append(Span(begin=begin, end=rig.clock.now()))
        rig.prometheus.clear()
        await rig.evictions(1)
        rig.descheduler.epoch = None
        await rig.all_settled()
        await rig.converge()
    finally:
        requesting.cancel()
        rig.stop_programs()
        rig.collector.take_over()
        rig.collector.publishing = True
        rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
        # Pending intents are settled by a binder that receives the fake collector's messages.
        await rig.recreate_consumer()
        await rig.start("binder", 1)


async def _pack(rig: Rig) -> None:
    """All pods with a high usage are placed on two nodes."""
    others = cluster_setup.NODES[2:]
    nodes = "/api/v1/nodes"
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", True)
    path = f"/api/v1/namespaces/{cluster_setup.NAMESPACE}/pods"
    for name in cluster_setup.HEAVY:
        await rig.api.request("DELETE", f"{path}?labelSelector=app%3D{name}")
    await asyncio.sleep(0.5)
    await rig.all_replicas_ready()
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", False)


async def _cordon(rig: Rig, path: str, cordoned: bool) -> None:
    await rig.api.request(
        "PATCH", path, {"spec": {"unschedulable": cordoned}}, content_type="application/merge-patch+json"
    )


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


def without_some(rig: Rig) -> None:
    """Some nodes are missing in every response."""

    def without(document: Any) -> Any:
        result = document["data"]["result"]
        if document["data"]["resultType"] in ("vector", "matrix"):
            result = [series for series in result if series["metric"].get("node") not in UNKNOWN]
        return document | {"data": document["data"] | {"result": result}}

    rig.prometheus.rule(rewrite(body=without), path="/query")


def not_a_number(rig: Rig) -> None:
    """The usage of some nodes is NaN."""

    def nan(document: Any) -> Any:
        for series in document["data"]["result"] if document["data"]["resultType"] == "vector" else ():
            if series["metric"].get("node") in UNKNOWN:
                series["value"][1] = "NaN"
        return document

    rig.prometheus.rule(rewrite(body=nan), path=USAGE)


def freeze(rig: Rig) -> None:
    """Every query is evaluated as of now."""
    at = rig.clock.now()

    def then(query: dict[str, str]) -> dict[str, str]:
        return query if query.get("query") == "time()" else query | {"time": f"{at:.3f}"}

    rig.prometheus.rule(rewrite(query=then), path="/query")


async def few_measured(rig: Rig, extent: Extent) -> None:
    """Six of ten nodes are missing in every response of Prometheus."""
    await with_real_metrics(rig, extent, lambda: without_some(rig))


async def not_numbers(rig: Rig, extent: Extent) -> None:
    """The usage of six of ten nodes is NaN; the times and numbers of its samples are valid."""
    await with_real_metrics(rig, extent, lambda: not_a_number(rig))


async def frozen(rig: Rig, extent: Extent) -> None:
    """Prometheus evaluates every query as of one fixed time."""
    await with_real_metrics(rig, extent, lambda: freeze(rig))


FAULTS = (
    fault(few_measured, 20, intents=5, evictions=3),
    fault(not_numbers, 21, intents=5, evictions=3),
    fault(frozen, 22, intents=5, evictions=3),
)
