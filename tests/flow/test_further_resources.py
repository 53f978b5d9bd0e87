"""A further resource from its PromQL to an eviction, through all five services."""

from collections import Counter
from collections.abc import Container, Sequence

import msgspec
from collector.samples import a_sample
from flow.loop import HOT, INTERVAL, Loop, annotations_of, settled

from equipoise.collector.decisions.query import Sample, Subject
from equipoise.collector.state.placement import PodName
from equipoise.contracts.configuration.settings import (
    FurtherResource,
    FurtherThresholds,
    LoadSettings,
    ResourceThresholds,
    Thresholds,
)
from equipoise.contracts.kubernetes.annotations import LOAD
from equipoise.contracts.messages.eviction import Outcome

FIRST = 10 * INTERVAL
NETWORK = FurtherResource(
    node="sum by (node) (rate(sent[$window]))",
    pod="sum by (namespace, pod) (rate(pod_sent[$window]))",
    capacity=100,
)
BUSY, QUIET = "node-b", "node-c"


class Network:
    """Each pod sends 10 units per second, whatever is queried; node-b sends 75 more."""

    node_labels: Sequence[str] = ("node",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def samples(
        self,
        promql: str,
        subject: Subject,
        *,
        at: float,
        node_labels: Sequence[str] | None = None,
        unnamed: bool = False,
        pods: Container[PodName] | None = None,
    ) -> list[Sample]:
        placements = self._loop.placements()
        if subject == "pod":
            return [a_sample(10.0, node, namespace="shop", pod=pod) for pod, node in placements.items()]
        pods = Counter(placements.values())
        if "min_over_time" in promql:
            return [a_sample(0.0, node) for node in (HOT, BUSY, QUIET)]
        if "timestamp" in promql:
            return [a_sample(at - 5.0, node) for node in (HOT, BUSY, QUIET)]
        return [a_sample(10.0 * pods[node] + 75.0 * (node == BUSY), node) for node in (HOT, BUSY, QUIET)]

    def close(self) -> None:
        """Nothing is open."""


async def test_pods_leave_a_node_whose_network_is_busy_for_one_whose_is_not() -> None:
    """No node is hot in cpu or memory; the coolest node is busy in network, too, and is no target."""
    loop = Loop()
    loop.promql = Network(loop)
    thresholds = Thresholds(
        high=ResourceThresholds(cpu=95),
        low=ResourceThresholds(cpu=60),
        resources={"network": FurtherThresholds(high=70)},
    )
    loop.shared = msgspec.structs.replace(
        loop.shared, load=LoadSettings(resources={"network": NETWORK}), thresholds=thresholds
    )
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), limit=FIRST)
        outcome = settled(loop, Outcome.EVICTED)[0]
        annotations = annotations_of(loop)

    assert (HOT, QUIET) == (outcome.node, outcome.target)
    assert "node is hot: network 90.0% is above 70%" == outcome.reason
    assert {"network": 10.0} == outcome.expected_reduction.further
    assert {"network": 0.9} == annotations[f"node/{HOT}"][LOAD]["windows"]["5m"]["mean"]["further"]
    assert not any(loop.problems().values())
