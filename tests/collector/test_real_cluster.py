"""The collector on a real API server, fake kubelets and a real Prometheus, in compressed time."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from builders import a_workload_utilization
from cluster_fixtures import StartCluster
from prometheus_client import CollectorRegistry

from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings, PrometheusSettings
from equipoise.collector.sources import open_source
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Coverage, Freshness, LoadSettings, Window
from equipoise.contracts.kubernetes.annotations import as_annotations, workload_usage
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.objects import constant_usage_annotations, deployment, namespace, node, pod_template
from equipoise.testbed.processes.configuration import PrometheusConfiguration

LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(2), refresh_period=Duration(0.5)),
        Window(name="15m", length=Duration(4), refresh_period=Duration(1)),
        Window(name="1d", length=Duration(600), refresh_period=Duration(5)),
    ),
    freshness=Freshness(eviction=Duration(3), score=Duration(4)),
    coverage=Coverage(node_settling_period=Duration(1)),
)


ANNOTATED = 3.0
"""Cores in every slot of the Deployment's annotation; its pods use half a core."""


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    return start_cluster(prometheus=PrometheusConfiguration(scrape_interval=0.25))


@pytest.fixture(scope="module")
async def bus(cluster: Cluster) -> AsyncIterator[MemoryBus]:
    await cluster.add_nodes([node("alpha", cpu=8), node("beta", cpu=8)])
    usage = constant_usage_annotations(500, 256)
    web = deployment("web", pod_template("web", annotations=usage), replicas=6)
    clock, metrics = SystemClock(), CollectorRegistry()
    profile = workload_usage(a_workload_utilization(sampled_at=clock.now(), profile={"cpu": [ANNOTATED] * SLOTS}))
    assert profile is not None
    web["metadata"]["annotations"] = as_annotations(profile)
    await cluster.apply([namespace("equipoise-system"), web])
    settings = CollectorSettings(
        prometheus=PrometheusSettings(url=cluster.prometheus_url),
        profile=ProfileSettings(day=Duration(96), backfill_interval=Duration(0.2)),
    )
    connection = Kubernetes(kubeconfig=str(cluster.kubeconfig))
    async with connect_kube(connection, "collector", clock) as kube, MemoryBus(clock) as opened:
        collector = Collector(
            settings=settings, load=LOAD, namespace="equipoise-system", identity="one",
            source=open_source(settings, LOAD, clock, kube), kube=kube, bus=opened, clock=clock,
            health=Health(configuration_hash="", metrics=metrics), metrics=metrics,
        )  # fmt: skip
        await collector.attach()
        task = asyncio.create_task(collector.run())
        yield opened
        task.cancel()
        await asyncio.wait([task])


def nodes(bus: MemoryBus) -> dict[str, NodeUtilization]:
    return {message.node: message for message in bus.published(NodeUtilization, "equipoise.utilization.node.*")}


def placements(bus: MemoryBus) -> dict[str, NodePlacement]:
    return {message.node: message for message in bus.published(NodePlacement, "equipoise.placement.node.*")}


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  the in-memory bus does not notify about messages
            await asyncio.sleep(0.1)


async def test_usage_and_placement_of_a_real_cluster_are_published(bus: MemoryBus) -> None:
    """The usage of each pod, the sum of each node, the mean of the workload; the day is not covered and left out."""

    def measured() -> bool:
        known, placed = nodes(bus), placements(bus)
        return (
            2 == len(known)
            and 6 == sum(len(message.pods) for message in known.values())
            and all(
                "15m" in message.windows
                and message.windows["15m"].mean.cpu == pytest.approx(0.5 * len(placed[name].pods), rel=0.1)
                for name, message in known.items()
            )
        )

    await until(measured)
    for name, message in nodes(bus).items():
        pods = placements(bus)[name].pods

        assert "1d" not in message.windows
        assert {pod.uid for pod in pods} == message.pods.keys()
        assert {"web"} == {pod.workload.name for pod in pods if pod.workload}
    await until(lambda: bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[-1].fresh == 2)

    def web() -> WorkloadUtilization:
        return bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")[-1]

    await until(lambda: 6 == web().replicas and "5m" in web().windows)
    assert 256 * 2**20 == pytest.approx(web().windows["5m"].mean.memory)


async def test_a_profile_is_restored_from_a_real_deployment(bus: MemoryBus) -> None:
    """From its annotation, as Prometheus is too young."""

    def published() -> list[float | None]:
        published = bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
        return max((message.profile.get("cpu", []) for message in published), key=lambda day: day.count(ANNOTATED))

    await until(lambda: published().count(ANNOTATED) >= SLOTS / 2)
    assert None not in published()


async def test_a_deleted_pod_is_listed_as_gone_and_its_replacement_has_precise_times(
    bus: MemoryBus, cluster: Cluster
) -> None:
    """The gone one has its usage."""

    def measured() -> list[tuple[str, PlacedPod]]:
        known = nodes(bus)
        return [
            (name, pod)
            for name, published in placements(bus).items()
            for pod in published.pods
            if pod.uid in known[name].pods
        ]

    await until(lambda: len(measured()) == 6)
    node_name, deleted = measured()[0]
    await cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{deleted.name}?gracePeriodSeconds=0")
    await until(lambda: deleted.uid in {pod.uid for pod in placements(bus)[node_name].gone})
    (gone,) = [pod for pod in placements(bus)[node_name].gone if pod.uid == deleted.uid]

    assert 0.5 == pytest.approx(gone.usage.cpu, rel=0.3)

    def running() -> int:
        return sum(pod.running_since is not None for published in placements(bus).values() for pod in published.pods)

    await until(lambda: 6 == running())
    replacement = max(
        (pod for published in placements(bus).values() for pod in published.pods), key=lambda pod: pod.placed_at
    )
    assert replacement.uid != deleted.uid
    assert replacement.placed_at != int(replacement.placed_at)
    assert replacement.running_since is not None
    assert replacement.running_since - replacement.placed_at < 60  # usually some hundredths of a second


async def test_values_become_unknown_while_prometheus_is_down(bus: MemoryBus, cluster: Cluster) -> None:
    """The cycle reports why. After the return nothing is known before the window is covered."""
    cluster.kill("prometheus")

    def last() -> UtilizationCycle:
        return bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[-1]

    await until(lambda: last().fresh == 0 and "Prometheus at http" in last().problem)
    before = len(bus.published(NodeUtilization, "equipoise.utilization.node.*"))
    cluster.restart("prometheus")
    await until(lambda: last().fresh == 2 and not last().problem)
    later = bus.published(NodeUtilization, "equipoise.utilization.node.*")[before:]
    means = [message.windows["5m"].mean.cpu for message in later if "5m" in message.windows]
    truth = {name: 0.5 * len(message.pods) for name, message in nodes(bus).items()}

    assert means
    assert min(mean for mean in means if mean is not None) > 0.6 * min(truth.values())
