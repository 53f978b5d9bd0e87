"""Further resources beside cpu and memory: from the queries to the messages."""

from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest
from builders import NOW
from collector.collectors import NO_PROFILE, World, a_node, a_pod, a_world, collecting
from collector.samples import a_sample

from equipoise.collector.decisions.query import Origin, Sample, SourceError, Subject
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import open_promql_source
from equipoise.collector.state.placement import PodName
from equipoise.contracts.configuration.settings import FurtherResource, LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS
from equipoise.testbed.memory.clock import ManualClock

NETWORK = FurtherResource(
    node="sum by (node) (rate(sent[$window]))", pod="sum by (namespace, pod) (rate(pod_sent[$window]))", capacity=100.0
)
GPU = FurtherResource(node="avg by (Hostname) (avg_over_time(gpu[$window]))", capacity="gpus", node_label="Hostname")
BEGAN = datetime.fromtimestamp(NOW, UTC)
COLLECTING = CollectorSettings(leader_election=False, profile=NO_PROFILE)


def of_node(value: float, node: str) -> Sample:
    return msgspec.structs.replace(a_sample(value, node), origin=Origin(node=node, label="node", text=node))


@dataclass
class FakePromql:
    """Returns the values of `nodes` and `pods`, whatever is queried; each sample is `age` seconds old."""

    clock: ManualClock
    nodes: dict[str, float] = field(default_factory=lambda: {"a": 30.0, "b": 60.0})
    pods: dict[str, float] = field(default_factory=lambda: {"db-0": 12.0})
    capacity: dict[str, float] = field(default_factory=dict)
    node_of_pods: str = "a"
    age: float = 5.0
    fails: Callable[[str], bool] = lambda promql: False
    takes: float = 0.0
    running: int = 0
    """The number of queries about pods now."""

    most_running: int = 0
    closed: bool = False
    queries: list[tuple[str, Sequence[str] | None]] = field(default_factory=list)
    node_labels: Sequence[str] = ("node", "instance")

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
        self.queries.append((promql, node_labels))
        about_pods = subject == "pod"
        self.running += about_pods
        self.most_running = max(self.most_running, self.running)
        if self.takes:
            await self.clock.sleep(self.takes)
        self.running -= about_pods
        if self.fails(promql):
            raise SourceError("the response holds a scalar instead of a vector")
        if subject == "pod":
            origin = Origin(node=self.node_of_pods, label="node", text=self.node_of_pods)
            return [
                msgspec.structs.replace(a_sample(value, namespace="shop", pod=pod), origin=origin)
                for pod, value in self.pods.items()
            ]
        if promql.startswith("count("):
            return []
        if promql in ("gpus",):
            return [of_node(value, node) for node, value in self.capacity.items()]
        if "min_over_time" in promql:
            return [of_node(0.0, node) for node in self.nodes]
        if "timestamp" in promql:
            return [of_node(at - self.age, node) for node in self.nodes]
        return [of_node(value, node) for node, value in self.nodes.items()]

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def measuring(
    settings: CollectorSettings = COLLECTING, leases: Sequence[Lease] = (), **resources: FurtherResource
) -> AsyncIterator[tuple[World, FakePromql]]:
    world = a_world()
    promql = FakePromql(world.clock)
    load = LoadSettings(resources=resources)
    for lease in leases:
        world.kube.put(LEASES, lease)
    async with world.bus, collecting(world, settings, load=load, promql=promql):
        yield world, promql


async def test_a_further_resource_is_in_the_messages_beside_cpu_and_memory() -> None:
    """The capacity is in the base, the usage in the windows, the part of each pod with the pod."""
    async with measuring(network=NETWORK) as (world, _):
        await world.advance(60)
        node = world.nodes()["a"]

        assert {"network": 100.0} == node.base.further
        assert {"network": 30.0} == node.windows["5m"].mean.further
        assert (2.0, {"network": 30.0}) == (node.windows["15m"].mean.cpu, node.windows["15m"].mean.further)
        assert {"network": 12.0} == node.pods["uid-db-0"].further
        assert "" == node.resources["network"].unknown
        assert node.resources["network"].sampled_at > 0
        assert {"network": 12.0} == world.workloads()["db"].windows["5m"].mean.further


async def test_the_queries_are_about_the_window_and_group_by_the_label_of_the_node() -> None:
    """A resource has a label of its own, because exporters differ."""
    async with measuring(network=NETWORK, gpu=GPU) as (world, promql):
        await world.advance(30)

        assert ("sum by (node) (rate(sent[300000ms]))", ("node", "instance")) in promql.queries
        assert ("max by (node, instance) (timestamp(sent))", ("node", "instance")) in promql.queries
        assert ("max by (Hostname) (timestamp(gpu))", ("Hostname",)) in promql.queries
        assert (
            "min by (Hostname) (min_over_time(timestamp(gpu)[300000ms:15000ms]))", ("Hostname",)
        ) in promql.queries  # fmt: skip


async def test_a_resource_that_fails_is_named_and_leaves_the_others_as_they_are() -> None:
    """cpu, memory and other resources are measured as before."""
    async with measuring(network=NETWORK, gpu=GPU) as (world, promql):
        promql.fails = lambda text: "gpu" in text
        await world.advance(60)
        node = world.nodes()["a"]

        assert "gpu: the response holds a scalar instead of a vector" == world.health.problems["resources"]
        assert (2.0, {"network": 30.0}) == (node.windows["5m"].mean.cpu, node.windows["5m"].mean.further)
    assert "its query fails: the response holds a scalar instead of a vector" == node.resources["gpu"].unknown


async def test_slow_queries_about_further_resources_do_not_delay_cpu_and_memory() -> None:
    """They have a loop and connections of their own."""
    async with measuring(network=NETWORK) as (world, promql):
        promql.takes = 3_600.0
        await world.advance(60)

        assert 2.0 == world.nodes()["a"].windows["5m"].mean.cpu
        assert "not measured yet" == world.nodes()["a"].resources["network"].unknown


async def test_gpus_that_vanish_become_unknown() -> None:
    """Neither the usage nor the capacity becomes 0."""
    async with measuring(gpu=GPU) as (world, promql):
        promql.capacity = {"a": 100.0, "b": 0.0}
        await world.advance(60)
        assert {"gpu": 100.0} == world.nodes()["a"].base.further
        assert (None, "its capacity is 0") == (
            world.nodes()["b"].base.further, world.nodes()["b"].resources["gpu"].unknown
        )  # fmt: skip

        promql.nodes, promql.capacity = {}, {}
        await world.advance(60)
        node = world.nodes()["a"]
        assert (None, None) == (node.base.further, node.windows["5m"].mean.further)
        assert "no sample" == node.resources["gpu"].unknown


async def test_only_nodes_that_have_the_resource_are_expected_to_have_its_load() -> None:
    """A node without a GPU has no load of it, and lacks none."""
    gpu = msgspec.structs.replace(GPU, capacity=100.0, node_selector={"gpu": "true"})
    async with measuring(gpu=gpu) as (world, _):
        node = a_node("a")
        labels = ObjectMeta(
            name="a", uid="uid-a", labels={"gpu": "true"}, creation_timestamp=node.metadata.creation_timestamp
        )
        world.kube.put(NODES, msgspec.structs.replace(node, metadata=labels))
        await world.advance(60)

        assert {"gpu"} == world.nodes()["a"].resources.keys()
        assert {} == world.nodes()["b"].resources
        assert None is world.nodes()["b"].windows["5m"].mean.further


async def test_series_of_no_node_are_named_while_the_others_are_used() -> None:
    """Another cluster's nodes in the same Prometheus are no error of this cluster."""
    async with measuring(network=NETWORK) as (world, promql):
        promql.nodes["elsewhere"] = 1.0
        await world.advance(60)

        assert "a series without a node of this cluster" in world.health.problems["resources"]
        assert {"network": 30.0} == world.nodes()["a"].windows["5m"].mean.further


async def test_a_source_that_has_ended_is_not_used_until_the_end_of_the_window() -> None:
    """A rate is answered for a whole window after its last sample."""
    async with measuring(network=NETWORK) as (world, promql):
        await world.advance(60)
        promql.age = 200.0
        await world.advance(60)

        assert "newest sample is 200 s old" == world.nodes()["a"].resources["network"].unknown
        assert None is world.nodes()["a"].windows["5m"].mean.further
        assert None is world.nodes()["a"].pods["uid-db-0"].further


def test_a_source_without_promql_refuses_further_resources() -> None:
    """The message states what to change."""
    load = LoadSettings(resources={"network": NETWORK})
    assert open_promql_source(CollectorSettings(source="metrics-server"), LoadSettings(), ManualClock(0.0)) is None
    with pytest.raises(ConfigurationError, match=r"load\.resources needs collector\.source prometheus"):
        open_promql_source(CollectorSettings(source="metrics-server"), load, ManualClock(0.0))


async def test_the_age_is_that_of_the_shortest_window() -> None:
    """Its queries fail, and those of longer windows do not: a value that grows old does not look fresh."""
    async with measuring(network=NETWORK) as (world, promql):
        await world.advance(1)
        before = world.nodes()["a"].resources["network"].sampled_at
        promql.fails = lambda text: "[300000ms]" in text
        await world.advance(100)

        assert before == world.nodes()["a"].resources["network"].sampled_at
        promql.fails = lambda text: False
        await world.advance(30)
        assert world.nodes()["a"].resources["network"].sampled_at > before


async def test_with_shards_the_queries_are_about_the_nodes_of_the_replica() -> None:
    """What cannot be limited is named. All windows of a shard are measured soon after it was acquired: the one of
    node a when the Lease of a lost replica expires."""
    total = FurtherResource(node="sum(rate(sent[$window]))", capacity=100.0)
    settings = CollectorSettings(shards=2, profile=NO_PROFILE)
    spec = LeaseSpec(
        holder_identity="lost", lease_duration_seconds=30, acquire_time=BEGAN, renew_time=BEGAN
    )  # fmt: skip
    lease = Lease(metadata=ObjectMeta(name="equipoise-collector-1", namespace="equipoise-system"), spec=spec)
    async with measuring(settings, [lease], network=NETWORK, total=total) as (world, promql):
        await world.advance(90)
        nodes, queries = world.nodes(), [query for query, _ in promql.queries]
        problem = world.health.problems["shards"]

    for node, used in (("a", 30.0), ("b", 60.0)):
        measured = {name: usage.mean.further for name, usage in nodes[node].windows.items()}
        assert {"5m", "15m", "1h", "1d"} == measured.keys()
        assert all(further == {"network": used, "total": used} for further in measured.values()), measured
    assert 'sum by (node) (rate(sent{node=~"a|b"}[300000ms]))' in queries
    assert 'max by (node, instance) (timestamp(sent{node=~"a|b"}))' in queries
    assert 'sum by (namespace, pod) (rate(pod_sent{node=~"a|b"}[300000ms]))' in queries
    assert (
        "the query about total of nodes is not divided among the shards: sum combines series of several nodes"
        == problem
    )


async def test_with_shards_the_nodes_of_pods_are_compared_with_the_label_of_their_series() -> None:
    """An exporter may have the series of pods on other nodes. Pods that have left a node are known."""
    settings = CollectorSettings(leader_election=False, shards=2, profile=NO_PROFILE)
    async with measuring(settings, network=NETWORK) as (world, promql):
        promql.node_of_pods = "b"
        await world.advance(90)
        problem = world.health.problems["shards"]
        queries = [query for query, _ in promql.queries]

    assert "pod_sent: 100% of the pods run on other nodes than their series name" in problem
    assert "sum by (namespace, pod) (rate(pod_sent[300000ms]))" in queries


async def test_a_pod_that_was_created_again_has_series_of_the_node_that_it_left() -> None:
    settings = CollectorSettings(leader_election=False, shards=2, profile=NO_PROFILE)
    async with measuring(settings, network=NETWORK) as (world, promql):
        await world.advance(1)
        world.kube.remove(PODS, "db-0", "shop")
        world.kube.put(PODS, a_pod("db-0", "b"))
        promql.queries.clear()
        await world.advance(1_900)

    queries = [query for query, _ in promql.queries]
    assert 'count by (namespace, pod, job, node) (pod_sent{node=~"a|b"})' in queries
    assert "sum by (namespace, pod) (rate(pod_sent[300000ms]))" not in queries


async def test_one_result_about_pods_is_read_at_a_time() -> None:
    """It is large."""
    async with measuring(network=NETWORK, other=NETWORK) as (world, promql):
        promql.takes = 1.0
        await world.advance(60)

    assert 1 == promql.most_running
    assert {"network": 12.0, "other": 12.0} == world.nodes()["a"].pods["uid-db-0"].further
