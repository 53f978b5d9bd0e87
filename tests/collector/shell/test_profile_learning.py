"""24-hour profiles of workloads, measured slot by slot and restored from annotations."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest
from builders import GIB, NOW, a_workload, a_workload_utilization
from collector.collectors import NO_PROFILE, World, a_pod, a_world, collecting
from collector.sources_in_memory import FakeSource, Usage

from equipoise.collector.decisions.query import MetricQuery, NodeMatcher, Sample
from equipoise.collector.decisions.replica_means import ReplicaMean
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.profile_learning import KINDS, PROBLEM, RETRY_PERIOD, ProfileLearning, restore_profiles
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.collector.state.workloads import slot_of
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import as_annotations, workload_usage
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube


async def test_the_past_day_is_backfilled_slot_by_slot() -> None:
    """Each slot is the mean of the pods."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(300)
        profile = world.workloads()["db"].profile

        assert [0.5] * 24 == profile["cpu"]
        assert 0.5 == world.workloads()["db"].windows["1d"].mean.cpu
        slots = {query.at for query in world.source.queries if query.subject == "pod" and query.at % 3_600 == 0}
        assert 24 == len(slots)
        world.source.pods["shop", "db-0", "a"].cpu = world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)
        assert 0.8 == pytest.approx(max(value or 0.0 for value in world.workloads()["db"].profile["cpu"]))


async def test_slots_include_pods_that_left() -> None:
    """A pod that ran in that hour belongs to that hour of its workload."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(1)
        world.kube.remove(PODS, "db-1", "shop")
        world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)

        assert 1.0 == max(value or 0.0 for value in world.workloads()["db"].profile["cpu"])


async def test_with_shards_the_pods_of_a_slot_are_queried_in_parts() -> None:
    """Every replica learns the profiles of all workloads, with one part of the pods in memory at a time, from its first
    slot on. The last part has the pods of a node that was removed; there is none if no pod is missing."""
    world = a_world()
    settings = CollectorSettings(
        leader_election=False, shards=2, profile=ProfileSettings(backfill_interval=Duration(10))
    )  # fmt: skip
    world.source.takes = 5.0  # a search for labels is longer than the time until the first slot
    async with world.bus, collecting(world, settings):
        await world.advance(60)
        world.kube.remove(PODS, "db-1", "shop")
        world.kube.remove(NODES, "b", "")
        world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)
        hours = [query for query in world.source.queries if query.subject == "pod" and query.length == 3_600]
        slots = [query for query in hours if query.at % 3_600 == 0]

    assert 1.0 == max(value or 0.0 for value in world.workloads()["db"].profile["cpu"])
    backfilled = {query.nodes for query in slots if query.at <= NOW}
    last = {query.nodes for query in slots if query.at > NOW}
    assert {NodeMatcher("node", ("a",)), NodeMatcher("node", ("b",))} <= backfilled
    assert None not in backfilled
    rounds = [query for query in world.source.queries if query.subject == "pod" and query.length == 300 and query.nodes]
    assert {query.jobs for query in slots} == {query.jobs for query in rounds if query.aggregate == "mean"}
    assert {NodeMatcher("node", ("a",)), NodeMatcher("node", ("", "b"))} == last


async def test_a_slot_without_its_last_part_is_that_of_the_others() -> None:
    """With the reason, and after another attempt."""
    world = a_world()
    world.source.fails = lambda query: query.nodes is not None and "" in query.nodes.values
    settings = CollectorSettings(
        leader_election=False, shards=2, profile=ProfileSettings(backfill_interval=Duration(10))
    )  # fmt: skip
    async with world.bus, collecting(world, settings):
        await world.advance(60)
        assert "profile" not in world.health.problems
        del world.source.pods["shop", "db-1", "b"]
        await world.advance(3_700)
        slots = [
            query
            for query in world.source.queries
            if query.subject == "pod" and query.at > NOW and query.length == 3_600
        ]

        assert "too many samples" in world.health.problems["profile"]
        assert 24 == sum(value is not None for value in world.workloads()["db"].profile["cpu"])
        assert 2 == sum("" in query.nodes.values for query in slots if query.nodes and query.resource == "cpu")


async def test_the_last_part_of_a_slot_is_queried_again_after_a_failure_that_passes() -> None:
    world = a_world()
    settings = CollectorSettings(
        leader_election=False, shards=2, profile=ProfileSettings(backfill_interval=Duration(10))
    )  # fmt: skip
    async with world.bus, collecting(world, settings):
        await world.advance(600)
        world.kube.remove(PODS, "db-1", "shop")
        world.kube.remove(NODES, "b", "")
        world.source.pods["shop", "db-1", "b"].cpu = 1.5
        world.source.fails = lambda query: query.nodes is not None and "" in query.nodes.values
        await world.advance(NOW + 3_600 - NOW % 3_600 + 76 - world.clock.now())
        assert "too many samples" in world.health.problems["profile"]
        world.source.fails = lambda _: False
        await world.advance(60)

        assert 0.65 == pytest.approx(max(value or 0.0 for value in world.workloads()["db"].profile["cpu"]))
        assert "profile" not in world.health.problems


async def test_slots_include_detached_pods() -> None:
    """In the usage per replica, and in the number of replicas of each hour."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(1)
        (pod,) = [pod for pod in world.kube.stored(PODS) if pod.metadata.name == "db-1"]
        metadata = msgspec.structs.replace(pod.metadata, owner_references=[], labels={})
        world.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
        world.source.pods["shop", "db-1", "b"].cpu = 1.5
        await world.advance(3_700)
        found = world.workloads()["db"]

        assert 1.0 == max(value or 0.0 for value in found.profile["cpu"])
        assert (found.replicas, found.windows["5m"].mean.cpu, found.replicas_by_hour) == (2, 1.0, [])


async def test_a_failed_slot_does_not_block_the_others() -> None:
    """It is retried with backoff, after all others."""
    world = a_world()
    newest = NOW - NOW % 3_600
    world.source.fails = lambda query: query.subject == "pod" and query.at == newest
    settings = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))
    async with world.bus, collecting(world, settings):
        await world.advance(3_000)
        queries = [
            query.at
            for query in world.source.queries
            if query.subject == "pod" and query.aggregate == "mean" and query.at % 3_600 == 0
        ]

        assert 24 == len(set(queries))
        assert queries.count(newest) <= 2 * 12
        assert 23 == sum(value is not None for value in world.workloads()["db"].profile["cpu"])


async def test_slots_that_cannot_be_queried_are_a_problem() -> None:
    """Windows may succeed while hours are too large for one response."""
    world = a_world()
    settings = CollectorSettings(leader_election=False)
    async with world.bus, collecting(world, settings):
        await world.advance(60)
        assert "profile" not in world.health.problems

        world.source.fails = lambda query: query.subject == "pod" and query.at < NOW
        await world.advance(60)
        assert "too many samples" in world.health.problems["profile"]

        world.source.fails = lambda query: False
        await world.advance(60)
        assert "profile" not in world.health.problems


def an_annotated_deployment(cpu: float = 2.0, sampled_at: float = NOW - 3_600) -> WorkloadObject:
    """As an annotator has written it."""
    day: dict[str, list[float | None]] = {"cpu": [cpu] * 24, "memory": [GIB] * 24}
    usage = workload_usage(a_workload_utilization(sampled_at=sampled_at, profile=day))
    assert usage is not None
    return WorkloadObject(metadata=ObjectMeta(name="web", namespace="shop", annotations=as_annotations(usage)))


def roll_out(world: World, revision: str) -> None:
    """Two pods of the Deployment `web` by a ReplicaSet of its own; those of an earlier one go."""
    for pod in world.kube.stored(PODS):
        world.kube.remove(PODS, pod.metadata.name, "shop")
    world.source.pods.clear()
    name = f"web-{revision}"
    deployment = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-web", controller=True)
    metadata = ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", owner_references=[deployment])
    world.kube.put(REPLICA_SETS, WorkloadObject(metadata=metadata))
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=f"uid-{name}", controller=True)
    for node in ("a", "b"):
        pod = a_pod(f"{name}-{node}", node)
        owned = msgspec.structs.replace(pod.metadata, owner_references=[owner])
        world.kube.put(PODS, msgspec.structs.replace(pod, metadata=owned))
        world.source.pods["shop", pod.metadata.name, node] = Usage(cpu=0.5, memory=GIB)


@dataclass
class YoungSource(FakeSource):
    """It has samples of the last hour before the start only."""

    async def query(self, query: MetricQuery) -> list[Sample]:
        samples = await super().query(query)
        unseen = query.subject == "pod" and query.length == 3_600 and query.at <= NOW - 3_600
        return [] if unseen else samples


def a_world_with_a_young_source() -> World:
    world = a_world()
    world.source = YoungSource(world.clock, nodes=world.source.nodes)
    roll_out(world, "1")
    return world


LEARNING = CollectorSettings(leader_election=False, profile=ProfileSettings(backfill_interval=Duration(10)))


async def test_slots_before_the_sources_retention_are_restored_from_the_annotation() -> None:
    """Later measurements are smoothed into them; no window is made of them; a rollout changes nothing."""
    world = a_world_with_a_young_source()
    world.kube.put(DEPLOYMENTS, an_annotated_deployment())
    async with world.bus, collecting(world, LEARNING):
        await world.advance(300)
        published = world.workloads()["web"]
        newest = slot_of(NOW - NOW % 3_600, 3_600)

        assert [2.0] * 23 == [*published.profile["cpu"][:newest], *published.profile["cpu"][newest + 1 :]]
        assert 0.7 * 2.0 + 0.3 * 0.5 == pytest.approx(published.profile["cpu"][newest])
        assert {"5m"} == published.windows.keys()
        assert [] == list(world.health.problems)

        roll_out(world, "2")
        await world.advance(600)
        assert published.profile == world.workloads()["web"].profile


async def test_measured_slots_are_kept_when_annotations_are_read_late() -> None:
    """The listing failed at first: it is reported, blocks nothing, and is retried."""
    world = a_world_with_a_young_source()
    world.kube.put(DEPLOYMENTS, an_annotated_deployment())
    world.kube.faults.refuse("list", resource="deployments")
    async with world.bus, collecting(world, LEARNING):
        await world.advance(200)
        newest = slot_of(NOW - NOW % 3_600, 3_600)
        assert "list deployments.apps" in world.health.problems["profile annotations"]
        assert (0.5, 1) == (world.workloads()["web"].profile["cpu"][newest], len(world.health.problems))
        assert 23 == world.workloads()["web"].profile["cpu"].count(None)

        world.kube.faults.clear()
        await world.advance(150)
        assert {} == world.health.problems
        assert 0.5 == world.workloads()["web"].profile["cpu"][newest]
        assert 23 == world.workloads()["web"].profile["cpu"].count(2.0)
        assert 2 == sum(call.verb == "list" and call.resource == "deployments" for call in world.kube.calls)
        assert 1 == sum(call.verb == "list" and call.resource == "daemonsets" for call in world.kube.calls)


async def test_missing_kinds_of_workloads_are_no_problem() -> None:
    """Without Kruise and Argo the other kinds are read; none is when profiles are disabled."""
    world = a_world_with_a_young_source()
    world.kube.put(DEPLOYMENTS, an_annotated_deployment(cpu=11.0))
    for resource in ("clonesets", "rollouts"):
        world.kube.faults.refuse("list", status=404, resource=resource)
    async with world.bus, collecting(world, LEARNING):
        await world.advance(60)
        assert {} == world.health.problems
        assert 11.0 not in world.workloads()["web"].profile["cpu"]

    world = a_world_with_a_young_source()
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(60)
        assert "list" not in {call.verb for call in world.kube.calls}


async def test_a_measured_slot_deletes_profiles_of_workloads_without_pods() -> None:
    """Names come and go."""
    settings, load, clock = CollectorSettings(scrape_interval=Duration(15)), LoadSettings(), ManualClock(NOW)
    placement = ClusterPlacement(
        windows=[300.0], start_timeout=600.0, owner_retention=90_000.0, owner_of=no_owner, selector={}
    )
    measurement = Measurement(settings=settings, load=load, source=FakeSource(clock), placement=placement, clock=clock)
    store = measurement.workload_store
    store.restore(a_workload(), [Resources(cpu=2.0)] * 24)
    profiles = ProfileLearning(settings=settings, load=load, measurement=measurement, clock=clock)
    assert "" == await profiles.measure(NOW - NOW % 3_600)
    mean = ReplicaMean(usage=Resources(cpu=1.0), replicas=1, sampled_at=NOW)
    store.record(store.with_means({a_workload(): mean}, NOW))
    [message] = store.messages(store.measured, NOW, epoch=1, sequence=1)

    assert {} == message.profile


def no_owner(_: Workload) -> OwnerReference | None:
    raise LookupError


class Annotated:
    """An API server with a workload of each kind, and the receiver of annotations and problems."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.kube = MemoryKube(self.clock)
        self.restored: dict[Workload, Mapping[str, str]] = {}
        self.problems: dict[str, str] = {}
        for resource in KINDS:
            metadata = ObjectMeta(name="web", namespace="shop", annotations={"kind": resource.kind})
            self.kube.put(resource, WorkloadObject(metadata=metadata))

    async def restore(self, annotations: Mapping[Workload, Mapping[str, str]]) -> int:
        self.restored.update(annotations)
        return len(annotations)

    def set_problem(self, key: str, text: str | None) -> None:
        self.problems.pop(key, None)
        if text is not None:
            self.problems[key] = text

    def queries(self, resource: str) -> int:
        return sum((call.verb, call.resource) == ("list", resource) for call in self.kube.calls)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(restore_profiles(self.kube, self.clock, self, self))
        try:
            await self.clock.advance(1)
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def cluster() -> Annotated:
    return Annotated()


async def test_each_kind_is_read_once(cluster: Annotated) -> None:
    """By the workload keys of the bus."""
    async with cluster.reading() as task:
        assert task.done()
    groups = {"CloneSet": "apps.kruise.io", "Rollout": "argoproj.io"}
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CloneSet", "Rollout")
    expected = {a_workload(kind=kind, group=groups.get(kind, "apps")): {"kind": kind} for kind in kinds}
    assert expected == cluster.restored
    assert {} == cluster.problems


@pytest.mark.parametrize(("status", "reason"), [(403, "forbidden to list deployments.apps"), (500, "500 Injected")])
async def test_a_kind_that_could_not_be_listed_is_listed_again(cluster: Annotated, status: int, reason: str) -> None:
    """The problem is reported meanwhile; the other kinds are read once."""
    cluster.kube.faults.fail_next("list", resource="deployments", status=status)
    async with cluster.reading() as task:
        assert reason in cluster.problems[PROBLEM]
        assert {resource.kind for resource in KINDS} - {"Deployment"} == {found.kind for found in cluster.restored}

        await cluster.clock.advance(RETRY_PERIOD)
        assert task.done()
    assert a_workload() in cluster.restored
    assert {} == cluster.problems
    assert (2, 1) == (cluster.queries("deployments"), cluster.queries("statefulsets"))


async def test_a_kind_that_the_cluster_does_not_have_is_skipped(cluster: Annotated) -> None:
    """Such as those of Kruise or Argo."""
    cluster.kube.faults.refuse("list", resource="clonesets", status=404)
    async with cluster.reading() as task:
        assert task.done()
        assert {} == cluster.problems
        assert len(KINDS) - 1 == len(cluster.restored)


async def test_a_canceled_restore_ends_its_problem(cluster: Annotated) -> None:
    """A replica that lost its shards reports nothing."""
    cluster.kube.faults.refuse("list")
    async with cluster.reading():
        assert {PROBLEM} == cluster.problems.keys()
    assert {} == cluster.problems
