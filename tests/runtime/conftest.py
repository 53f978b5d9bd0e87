"""Fixtures of the runtime's tests: the health of a service, and worlds in memory and on a real cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from kube_worlds import NAMESPACE, MemoryWorld, RealWorld, World
from prometheus_client import CollectorRegistry

from equipoise.runtime.configuration.sections import Kubernetes
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed import objects as manifests
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(testbed_binaries: Binaries) -> Iterator[Cluster]:
    with Cluster(binaries=testbed_binaries) as cluster:
        asyncio.run(cluster.add_nodes([manifests.node("node-a"), manifests.node("node-b")]))
        asyncio.run(cluster.apply([manifests.namespace(NAMESPACE)]))
        yield cluster


@pytest.fixture(scope="session")
async def real(cluster: Cluster) -> AsyncIterator[RealWorld]:
    """Shared by all tests: each uses names of its own."""
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "binder", SystemClock()) as kube:
        yield RealWorld(cluster, kube)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.cluster)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld(SystemClock())
    world: World = request.getfixturevalue("real")
    return world


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def health(metrics: CollectorRegistry) -> Health:
    return Health(configuration_hash="abc", metrics=metrics)
