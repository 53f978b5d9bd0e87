"""Rounds of queries, and what is known after they succeed, fail or age."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest
from builders import GIB, NOW
from collector.collectors import NO_PROFILE, NODE_USAGES, World, a_node, a_pod, a_world, collecting
from collector.sources_in_memory import Usage
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.measurement import node_target
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.nodes.raw_allocatable import RAW_ALLOCATABLE
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.kubernetes.client import NODES, PODS


async def test_an_amplified_node_has_its_raw_allocatable_as_base(world: World) -> None:
    """Load is a share of the allocatable before the amplification; placement has the amplified one."""
    node = a_node("a")
    annotations = {RAW_ALLOCATABLE: '{"cpu": "4"}'}
    world.kube.put(
        NODES, msgspec.structs.replace(node, metadata=ObjectMeta(name="a", uid="uid-a", annotations=annotations))
    )
    await world.advance(30)

    assert (4.0, 64 * GIB) == (world.nodes()["a"].base.cpu, world.nodes()["a"].base.memory)
    assert 10.0 == world.placements()["a"].allocatable.cpu


async def test_a_workload_is_the_mean_of_its_pods(world: World) -> None:
    """Usage per replica; longer windows as soon as they are covered."""
    world.source.pods["shop", "db-1", "b"].cpu = 1.5
    await world.advance(60)
    workload = world.workloads()["db"]
    assert (2, 1.0) == (workload.replicas, workload.windows["5m"].mean.cpu)
    assert {"5m"} == workload.windows.keys()

    await world.advance(900)
    assert {"5m", "15m"} == world.workloads()["db"].windows.keys()
    assert {300.0} == {
        query.length for query in world.source.queries if query.subject == "pod" and query.aggregate == "mean"
    }


async def test_pods_may_be_sampled_less_often_than_nodes() -> None:
    """Kubelets and node-exporter have scrape intervals of their own."""
    world = a_world()
    world.source.pods = {name: Usage(cpu=0.5, memory=GIB, interval=60.0) for name in world.source.pods}
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)

        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_pods_use_the_scrape_interval_of_the_nodes_when_theirs_is_unknown() -> None:
    """The query of their spacing may fail."""
    world = a_world()
    world.source.fails = lambda query: (query.subject, query.aggregate) == ("pod", "spacing")
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)

        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_scrape_intervals_are_measured_once_for_all_windows() -> None:
    """At a start, all windows are measured at the same time."""
    world = a_world()
    world.source.takes = 0.1
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(5)

        assert {"5m", "15m", "1h", "1d"} == world.nodes()["a"].windows.keys()
        assert {"node": 1, "pod": 1} == Counter(
            query.subject for query in world.source.queries if query.aggregate == "spacing"
        )


async def test_raw_samples_are_not_read_when_the_interval_is_configured() -> None:
    """Only which series show the pods is found."""
    world = a_world()
    settings = CollectorSettings(leader_election=False, profile=NO_PROFILE, scrape_interval=Duration(15))
    async with world.bus, collecting(world, settings):
        await world.advance(1)

        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()
        assert {"mean", "count", "newest", "last", "pods"} >= {query.aggregate for query in world.source.queries}
        assert {"containers"} == {query.pod_series for query in world.source.queries if query.aggregate == "pods"}


async def test_values_become_stale_while_the_source_is_down(world: World) -> None:
    """The last values keep their times, the cycle has the reason, and later they are unknown."""
    before = world.nodes()["a"]
    world.source.down = "ConnectionRefusedError"
    await world.advance(60)

    assert before.windows["5m"] == world.nodes()["a"].windows["5m"]
    problem = f"Prometheus at {CollectorSettings().prometheus.url}: ConnectionRefusedError"
    assert world.cycle().problem == world.health.problems["prometheus"] == problem
    assert 2 == world.cycle().fresh
    await world.advance(180)
    assert "5m" not in world.nodes()["a"].windows
    assert 0 == world.cycle().fresh
    world.source.down = ""
    await world.advance(60)
    assert {} == world.health.problems
    assert (2, "") == (world.cycle().fresh, world.cycle().problem)
    assert {"5m", "15m", "1h", "1d"} == world.nodes()["a"].windows.keys()


async def test_a_failed_query_does_not_affect_the_others(world: World) -> None:
    """Only the memory of nodes becomes stale."""
    world.source.fails = lambda query: query.resource == "memory" and query.subject == "node"
    world.source.nodes["a"].cpu = 3.0
    await world.advance(20)
    mean = world.nodes()["a"].windows["5m"].mean

    assert (3.0, 8 * GIB) == (mean.cpu, mean.memory)
    assert "memory of nodes" in world.health.problems["prometheus"]
    assert (2, "") == (world.cycle().fresh, world.cycle().problem)
    await world.advance(300)
    mean = world.nodes()["a"].windows["5m"].mean
    assert (3.0, None) == (mean.cpu, mean.memory)


async def test_a_failed_query_of_pods_keeps_the_previous_values(world: World) -> None:
    """Until they are too old. Memory is refreshed, and workloads record no partial round."""
    world.source.fails = lambda query: query.resource == "cpu" and query.subject == "pod"
    world.source.pods["shop", "db-0", "a"].memory = 2 * GIB
    await world.advance(30)
    used = world.nodes()["a"].pods["uid-db-0"]
    assert (0.5, 2 * GIB, 1.5) == (used.cpu, used.memory, world.nodes()["a"].system.cpu)
    assert 0.5 == world.workloads()["db"].windows["5m"].mean.cpu

    await world.advance(200)
    used = world.nodes()["a"].pods["uid-db-0"]
    assert (None, 2 * GIB) == (used.cpu, used.memory)


async def test_pods_without_enough_samples_are_a_problem(world: World) -> None:
    """When the source responds and no settled pod is covered."""
    assert "pods" not in world.health.problems
    for usage in world.source.pods.values():
        usage.coverage = 0.5
    await world.advance(30)
    assert "none of 2 pods has enough samples in 5m" in world.health.problems["pods"]
    assert {} == world.nodes()["a"].pods

    for usage in world.source.pods.values():
        usage.coverage = 1.0
    await world.advance(30)
    assert "pods" not in world.health.problems


async def test_a_source_that_does_not_support_pods_is_no_problem(world: World) -> None:
    """It reports that as unsupported."""
    world.source.rejects = lambda query: "nodes only" if query.subject == "pod" else ""
    await world.advance(30)

    assert "pods" not in world.health.problems


@pytest.mark.parametrize("subjects", [("node", "pod"), ("pod",)])
async def test_previous_scrape_intervals_are_kept_when_they_cannot_be_measured(subjects: tuple[str, ...]) -> None:
    """Of nodes and of pods."""
    world = a_world()
    world.source.pods = {name: Usage(cpu=0.5, memory=GIB, interval=60.0) for name in world.source.pods}
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(1)
        world.source.fails = lambda query: query.aggregate == "spacing" and query.subject in subjects
        await world.advance(2_000)

        assert {} == world.health.problems
        assert 2 == world.cycle().fresh
        assert {"uid-db-0"} == world.nodes()["a"].pods.keys()


async def test_a_pod_on_a_node_without_samples_is_not_part_of_its_workload(world: World) -> None:
    """The age of its usage is unknown."""
    del world.source.nodes["a"]
    world.kube.put(NODES, a_node("c"))
    world.kube.put(PODS, a_pod("db-2", "c"))
    world.source.pods["shop", "db-2", "c"] = Usage(cpu=9.0)
    await world.advance(30)

    assert 2 == world.workloads()["db"].replicas
    assert 0.5 == world.workloads()["db"].windows["5m"].mean.cpu


async def test_without_any_series_every_node_is_unknown(world: World) -> None:
    """Nothing is 0, and the missing nodes are named."""
    world.source.nodes.clear()
    await world.advance(20)

    assert {"15m", "1h", "1d"} >= world.nodes()["a"].windows.keys()
    await world.advance(200)
    assert (2, 0, {"a", "b"}) == (world.cycle().expected, world.cycle().fresh, world.cycle().missing.keys())


async def test_nodes_without_data_are_summarized_on_readyz(world: World) -> None:
    """By reason with a few names; on the bus with all counts. The problem ends when they have data."""
    gone = world.source.nodes.pop("b")
    await world.advance(200)
    assert world.health.problems["nodes"] == "unknown load: stale (1 node: b)"
    assert (world.cycle().fresh, world.cycle().reasons) == (1, {"stale": 1})
    world.source.nodes["b"] = gone
    await world.advance(30)
    assert "nodes" not in world.health.problems


async def test_a_source_with_other_node_names_is_a_problem(world: World) -> None:
    """The labels of one of its series are shown."""
    world.source.nodes = {"10.0.0.1": Usage()}
    await world.advance(20)

    assert 'node="10.0.0.1"' in world.health.problems["prometheus"]
    assert 'node="10.0.0.1"' in world.cycle().problem


async def test_a_recreated_node_does_not_get_the_samples_of_its_predecessor(world: World) -> None:
    """It has another UID."""
    world.kube.remove(NODES, "a")
    world.kube.put(NODES, a_node("a", uid="new", age=-1))
    await world.advance(30)
    published = [
        message
        for message in world.bus.published(NodeUtilization, NODE_USAGES)
        if message.node == "a" and message.uid == "new"
    ]

    assert all(not message.windows for message in published)
    assert 1 == world.cycle().expected


async def test_young_and_unready_nodes_are_not_expected_to_have_data(world: World) -> None:
    """Others are."""
    world.kube.put(NODES, a_node("young", age=100))
    world.kube.put(NODES, a_node("ill", ready=False))
    world.kube.put(NODES, a_node("dark"))
    await world.advance(20)
    cycle = world.cycle()

    assert (3, 2) == (cycle.expected, cycle.fresh)
    assert "no sample" in cycle.missing["dark"]


@pytest.mark.parametrize(
    ("skew", "fresh", "warned", "published"), [(1.0, 2, False, False), (3.0, 2, True, False), (-11.0, 0, True, True)]
)
async def test_the_clock_skew_of_the_source_is_published(
    world: World, skew: float, fresh: int, warned: bool, published: bool
) -> None:
    """A warning above two seconds; above ten every value is unknown."""
    world.source.skew = skew
    await world.advance(20)

    assert skew == pytest.approx(world.cycle().skew)
    assert fresh == world.cycle().fresh
    assert warned == ("clock" in world.health.problems)
    assert published == ("clock" in world.cycle().problem)


@pytest.mark.parametrize("skew", [-20.0, 20.0, 7_200.0, 1e9])
async def test_a_source_with_a_wrong_clock_measures_nothing(world: World, skew: float) -> None:
    """Subscribers receive the reason why every value is unknown, in a cycle that they do not drop."""
    before = world.nodes()["a"]
    world.source.skew = skew
    await world.advance(20)

    assert 0.0 <= world.clock.now() - world.cycle().queried_at <= 15.0
    assert 0 == world.cycle().fresh
    assert f"differs by {skew:+.1f} s" in world.cycle().problem
    assert "every value is unknown" in world.health.problems["prometheus"]
    assert before.sampled_at == world.nodes()["a"].sampled_at

    world.source.skew = 0.0
    await world.advance(20)
    assert 2 == world.cycle().fresh
    assert not world.health.problems


async def test_a_step_of_all_clocks_has_no_effect_after_they_are_set_back(world: World) -> None:
    """No clock differs meanwhile, so everything is measured with the wrong time."""
    world.clock.step(100_000.0)
    await world.advance(1_830)
    world.clock.step(-100_000.0)
    world.source.queries.clear()
    await world.advance(20)

    now, message = world.clock.now(), world.nodes()["a"]
    assert 0.0 <= now - message.queried_at <= 15.0
    assert message.sampled_at <= now
    assert 0.0 <= now - world.cycle().queried_at <= 15.0
    assert any(query.aggregate == "spacing" for query in world.source.queries)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.sampled_from([-86_400.0, -20.0, -3.0, 0.0, 4.0, 20.0, 170.0, 200.0, 7_200.0, 1e9]), min_size=1, max_size=4
    )
)
def test_a_wrong_clock_of_the_source_has_no_effect_after_it_is_right_again(skews: list[float]) -> None:
    """After one round, messages are those of a collector that never saw another time."""

    async def run() -> None:
        world, new = a_world(), a_world()
        async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            for skew in skews:
                world.source.skew = skew
                await world.advance(20)
            world.source.skew = 0.0
            await world.advance(20)
            now = world.clock.now()
        await new.clock.advance(now - new.clock.now())
        async with new.bus, collecting(new, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
            await new.advance(1)

        assert 0.0 <= now - world.cycle().queried_at <= 15.0
        assert (2, "") == (world.cycle().fresh, world.cycle().problem)
        for name, message in world.nodes().items():
            assert (message.windows.keys(), message.pods, message.system) == (
                new.nodes()[name].windows.keys(),
                new.nodes()[name].pods,
                new.nodes()[name].system,
            )
            assert all(window.sampled_at <= now for window in message.windows.values())
            assert 0.0 <= now - message.queried_at <= 15.0
        assert {"5m"} <= world.workloads()["db"].windows.keys()
        assert 0.0 <= now - world.workloads()["db"].queried_at <= 15.0

    asyncio.run(run())


def test_a_node_that_was_created_while_a_clock_was_ahead_is_measured() -> None:
    """All of its samples are older than that time, and would count as those of another machine of its name."""
    later = msgspec.structs.replace(
        a_node("node-a").metadata, creation_timestamp=datetime.fromtimestamp(NOW + 86_400, UTC)
    )
    node = msgspec.structs.replace(a_node("node-a"), metadata=later)
    assert node_target(node, NOW).since == 0.0
    assert node_target(node, NOW + 86_400).since == NOW + 86_400
