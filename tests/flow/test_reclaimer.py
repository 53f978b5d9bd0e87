"""The reclaimer beside the five services: a restart or a second replica does not change what nodes offer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from builders import GIB
from descheduler.cluster import a_pod_object
from flow.loop import HOT, IDLE, INTERVAL, Loop
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, PodStatus
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.reclaimer.__main__ import start
from equipoise.reclaimer.service import RECLAIMER_LEASE
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.configuration import Configuration
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime

NAMES = {f"kubernetes.io/{band}-{resource}" for band in ("batch", "mid") for resource in ("cpu", "memory")}
BATCH_CPU = "kubernetes.io/batch-cpu"
NODE = IDLE[0]


class Offering(Loop):
    """The nodes report their capacity, and reclaimers run beside the five services."""

    def _populate(self) -> None:
        super()._populate()
        for node in self.kube.stored(NODES):
            self.kube.put(NODES, replace(node, status=replace(node.status, capacity=node.status.allocatable)))

    @asynccontextmanager
    async def reclaiming(self, identity: str = "reclaimer-1", mode: str = "enforce") -> AsyncIterator[Health]:
        """A replica, until it is killed: it does not give its Lease back."""
        metrics = CollectorRegistry()
        health = Health(configuration_hash="", metrics=metrics)
        own = ReclaimerSettings(enabled=True, mode=mode)  # type: ignore[arg-type]  # one of two
        runtime = Runtime(
            configuration=Configuration(shared=self.shared, own=own, hash=""),
            message_bus=self.bus,
            clock=self.clock,
            health=health,
            metrics=metrics,
            identity=identity,
            api_server=self.kube,
        )
        task = asyncio.create_task(start(runtime))
        try:
            yield health
        finally:
            task.cancel()
            await asyncio.wait([task])

    def offered(self, node: str) -> Mapping[str, float]:
        """What the status of a node contains of the bands."""
        status = next(each.status for each in self.kube.stored(NODES) if each.metadata.name == node)
        assert {name: status.capacity.get(name) for name in NAMES} == {
            name: status.allocatable.get(name) for name in NAMES
        }
        return {name: parse_quantity(status.allocatable[name]) for name in NAMES if name in status.allocatable}

    def batch_cores(self, node: str) -> float:
        return self.offered(node).get(BATCH_CPU, 0.0) / 1_000

    def latest(self, node: str) -> ReclaimedNode:
        return self.bus.published(ReclaimedNode, f"equipoise.reclaim.node.{node}")[-1]

    @property
    def leader(self) -> str | None:
        leases = {each.metadata.name: each.spec.holder_identity for each in self.kube.stored(LEASES)}
        return leases.get(RECLAIMER_LEASE)

    def place_batch_pod(self, node: str, cores: float, phase: str = "Running") -> None:
        amounts = {BATCH_CPU: f"{cores * 1_000:g}", "kubernetes.io/batch-memory": f"{GIB:.0f}"}
        resources = ResourceRequirements(requests=amounts, limits=amounts)
        containers = [Container(resources=resources)]
        pod = a_pod_object("batch-1", node, self.clock.now(), priority=5_500, containers=containers)
        status = pod.status if phase == "Running" else PodStatus(phase=phase)
        self.kube.put(PODS, replace(pod, status=status))


async def test_measured_nodes_offer_what_their_pods_leave() -> None:
    """In the status of the node; the hot node, with 8.2 of 10 cores in use, offers nothing."""
    loop = Offering()
    async with loop.running(evict=False), loop.reclaiming() as health:
        await loop.until(lambda: loop.batch_cores(NODE) > 5, limit=30 * INTERVAL)

    assert loop.offered(NODE).keys() == NAMES
    assert 5 < loop.batch_cores(NODE) < 6.5, "at most 65 % of the node"
    assert loop.batch_cores(HOT) == 0
    assert loop.latest(NODE).bands["batch"].offered.cpu == pytest.approx(loop.batch_cores(NODE), abs=0.001)
    assert health.problems == []
    assert not any(loop.problems().values())


async def test_in_observation_nothing_is_written() -> None:
    loop = Offering()
    async with loop.running(evict=False), loop.reclaiming(mode="observe"):
        await loop.pass_time(15 * INTERVAL)

    offered = loop.latest(NODE).bands["batch"].offered.cpu
    assert offered is not None
    assert offered > 5
    assert not loop.offered(NODE)


async def test_a_restarted_reclaimer_continues_with_the_highest_usage() -> None:
    """A batch pod used a core before. The offer neither vanishes nor grows, and the pod fits."""
    loop = Offering()
    async with loop.running(evict=False):
        async with loop.reclaiming():
            for number in range(3):
                loop.place("web", f"web-1-more{number}", NODE)
            await loop.pass_time(15 * INTERVAL)
            for number in range(3):
                loop.kube.remove(PODS, f"web-1-more{number}", "shop")
            loop.place_batch_pod(NODE, 1.0)
            await loop.pass_time(5 * INTERVAL)
            before, highest = loop.batch_cores(NODE), loop.latest(NODE).highest
        async with loop.reclaiming("reclaimer-2"):
            await loop.pass_time(15 * INTERVAL)
            after, later = loop.batch_cores(NODE), loop.latest(NODE).highest
            assert loop.leader == "reclaimer-2"

    assert max(value for value in highest["cpu"] if value is not None) > 2.5
    assert max(value for value in later["cpu"] if value is not None) == pytest.approx(
        max(value for value in highest["cpu"] if value is not None)
    )
    assert after == pytest.approx(before, abs=0.2)
    assert after >= 1.0


async def test_of_two_replicas_one_leads() -> None:
    """Only the leader publishes and writes."""
    loop = Offering()
    async with loop.running(evict=False), loop.reclaiming("reclaimer-2"):
        await loop.until(lambda: loop.leader == "reclaimer-2", limit=INTERVAL)
        async with loop.reclaiming("reclaimer-1") as health:
            await loop.pass_time(15 * INTERVAL)
            assert not health.report().leading
            assert loop.leader == "reclaimer-2"
        assert len({message.epoch for message in loop.bus.published(ReclaimedNode, "equipoise.reclaim.node.*")}) == 1
        assert loop.batch_cores(NODE) > 5


async def test_a_pod_that_its_author_has_bound_makes_no_node_offer_more() -> None:
    """The kubelet has not admitted it: on a node in full use, it will be rejected."""
    loop = Offering()
    async with loop.running(evict=False), loop.reclaiming():
        await loop.pass_time(15 * INTERVAL)
        loop.place_batch_pod(HOT, 10.0, phase="Pending")
        await loop.pass_time(3 * INTERVAL)
        assert loop.batch_cores(HOT) == 0
        requested = loop.latest(HOT).bands["batch"].requested.cpu

    assert requested == 10.0, "the reclaimer knows it"
