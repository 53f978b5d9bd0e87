"""Several shards measure what one collector measures, each with queries about its own nodes."""

from collections.abc import Sequence

import pytest
from builders import GIB
from collector.collectors import NODE_USAGES, a_node
from collector.shell.test_shard_ownership import COUNT, LOAD, SharedCluster, shard_of
from collector.sources_in_memory import Usage

from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.kubernetes.client import NODES, PODS

NO_PROFILE = ProfileSettings(enabled=False)
ONE = CollectorSettings(profile=NO_PROFILE)
TWO = CollectorSettings(shards=2, profile=NO_PROFILE)
PRESSURES = {"cpu": 0.3, "memory": 0.0, "io": 0.05, "throttled": 0.2}


async def measured(
    settings: CollectorSettings, replicas: Sequence[str]
) -> tuple[SharedCluster, dict[str, NodeUtilization], dict[str, WorkloadUtilization]]:
    """The cluster, and the last message about each node and workload after twenty minutes."""
    cluster = SharedCluster()
    for pod in cluster.kube.stored(PODS):
        # Ten workloads with pods on many nodes.
        number = int(pod.metadata.name.rpartition("-")[2])
        owner = OwnerReference(
            api_version="apps/v1", kind="StatefulSet", name=f"db-{number % 10}", uid="u", controller=True
        )
        pod.metadata.owner_references[:] = [owner]
    async with cluster.bus:
        for replica in replicas:
            await cluster.begin(replica, settings)
            cluster.sources[replica].pressures = PRESSURES
            for number, usage in enumerate(cluster.sources[replica].pods.values()):
                usage.cpu, usage.memory = 0.1 * number, GIB * number
        await cluster.advance(1_200)
        for replica in replicas:
            await cluster.kill(replica)
    return cluster, latest_nodes(cluster), latest_workloads(cluster)


def latest_nodes(cluster: SharedCluster) -> dict[str, NodeUtilization]:
    return {message.node: message for message in cluster.bus.published(NodeUtilization, NODE_USAGES)}


def latest_workloads(cluster: SharedCluster) -> dict[str, WorkloadUtilization]:
    published = cluster.bus.published(WorkloadUtilization, "equipoise.utilization.workload.>")
    return {message.workload.name: message for message in published}


async def test_two_shards_publish_what_one_collector_publishes() -> None:
    """Nodes with their pods, and the means of workloads in all windows, whose pods are on nodes of both shards."""
    _, nodes, workloads = await measured(ONE, ["one"])
    _, of_two, workloads_of_two = await measured(TWO, ["one", "two"])

    assert COUNT == len(nodes)
    assert nodes.keys() == of_two.keys()
    for name, node in nodes.items():
        assert (node.pods, node.base) == (of_two[name].pods, of_two[name].base)
        assert node.pressure is not None
        assert node.pressure.pods
        other = of_two[name].pressure
        assert other is not None
        assert (node.pressure.waiting, node.pressure.pods) == (other.waiting, other.pods)
        means = {window: usage.mean for window, usage in node.windows.items()}
        assert means == {window: usage.mean for window, usage in of_two[name].windows.items()}
    assert 10 == len(workloads)
    assert workloads.keys() == workloads_of_two.keys()
    for name, workload in workloads.items():
        assert workload.replicas == workloads_of_two[name].replicas == 4
        assert {"5m", "15m"} == workload.windows.keys() == workloads_of_two[name].windows.keys()
        for window, usage in workload.windows.items():
            of_both = workloads_of_two[name].windows[window].mean
            assert (usage.mean.cpu, usage.mean.memory) == pytest.approx((of_both.cpu, of_both.memory))


async def test_each_of_two_replicas_queries_the_series_of_its_own_nodes() -> None:
    """All but the few queries that find the scrape intervals and the labels of nodes."""
    cluster, _, _ = await measured(TWO, ["one", "two"])
    named: dict[str, set[str]] = {}
    for replica, source in cluster.sources.items():
        usual = [query for query in source.queries if query.aggregate in ("mean", "count")]
        matchers = [query.nodes for query in usual if query.nodes is not None]
        assert len(matchers) == len(usual)
        named[replica] = set(matchers[-1].values)
        searches = [query for query in source.queries if query.nodes is None]
        assert len(searches) < len(usual) / 5
    assert named["one"] | named["two"] == set(cluster.usage)
    assert not named["one"] & named["two"]


async def test_queries_about_pressure_are_divided_too() -> None:
    """All but the few that find the labels of nodes."""
    cluster, _, _ = await measured(TWO, ["one", "two"])
    named: dict[str, set[str]] = {}
    for replica, source in cluster.sources.items():
        limited = [query.nodes for query in source.pressure_queries if query.nodes is not None]
        named[replica] = set(limited[-1].values)
        assert {"newest", "series"} == {query.measure for query in source.pressure_queries if query.nodes is None}
        assert len(source.pressure_queries) - len(limited) < len(limited) / 10
    assert named["one"] | named["two"] == set(cluster.usage)
    assert not named["one"] & named["two"]


async def test_a_single_shard_queries_and_subscribes_as_if_there_were_none() -> None:
    """No query names a node, none is added, and no message of another collector is received."""
    cluster, _, _ = await measured(ONE, ["one"])
    queries = cluster.sources["one"].queries
    assert {None} == {query.nodes for query in queries}
    about_pressure = cluster.sources["one"].pressure_queries
    assert {None} == {query.nodes for query in about_pressure}
    assert "series" not in {query.measure for query in about_pressure}
    assert {1} == {
        sum(other.at == query.at and other == query for other in queries)
        for query in queries
        if query.aggregate in ("newest", "pods")
    }
    assert NODE_USAGES not in cluster.followed


async def test_a_shard_that_is_not_published_makes_its_pods_unknown() -> None:
    """The mean is that of the pods that are known."""
    cluster = SharedCluster()
    async with cluster.bus:
        await cluster.begin("one", TWO)
        await cluster.begin("two", TWO)
        await cluster.advance(60)
        workload = latest_workloads(cluster)["db"]
        assert COUNT == workload.replicas
        lost = 1 - shard_of(str(workload.workload), 2)
        cluster.sources[cluster.holders[f"equipoise-collector-{lost}"]].down = "connection refused"
        await cluster.advance(LOAD.lifetime(LOAD.shortest) + 30)
        workload = latest_workloads(cluster)["db"]
        for replica in ("one", "two"):
            await cluster.kill(replica)

    assert workload.replicas == sum(shard_of(name, 2) != lost for name in cluster.usage)
    assert 0.5 == workload.windows["5m"].mean.cpu


async def test_a_new_node_is_measured_by_the_holder_of_its_shard() -> None:
    """As soon as it has series."""
    cluster = SharedCluster()
    async with cluster.bus:
        await cluster.begin("one", TWO)
        await cluster.begin("two", TWO)
        await cluster.advance(60)
        cluster.kube.put(NODES, a_node("new"))
        await cluster.advance(60)
        assert "new" not in latest_nodes(cluster)
        cluster.usage["new"] = Usage()
        await cluster.advance(90)
        assert "new" in latest_nodes(cluster)
        for replica in ("one", "two"):
            await cluster.kill(replica)


async def test_a_shard_that_was_acquired_is_published_when_its_nodes_are_measured() -> None:
    """Not before, with a part of the windows: a cycle without values would read as a cluster without coverage."""
    cluster = SharedCluster()
    async with cluster.bus:
        await cluster.begin("one", TWO)
        await cluster.begin("two", TWO)
        await cluster.advance(60)
        # A round is always running, and has measured its nodes long before it ends.
        cluster.sources["one"].takes_for_pods = 60.0
        await cluster.advance(60)
        await cluster.kill("two")
        before = len(cluster.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*"))
        published = len(cluster.bus.published(NodeUtilization, NODE_USAGES))
        await cluster.advance(600)
        cycles = cluster.bus.published(UtilizationCycle, "equipoise.utilization.cycle.*")[before:]
        await cluster.kill("one")
        nodes = cluster.bus.published(NodeUtilization, NODE_USAGES)[published:]

    assert [node.node for node in nodes if LOAD.shortest.name not in node.windows or not node.pods] == []
    assert {"all-0", "all-1"} == {cycle.shard for cycle in cycles}
    assert all(cycle.fresh == cycle.expected for cycle in cycles)
