"""A Prometheus that measures another cluster."""

import msgspec
from builders import GIB
from collector.collectors import NO_PROFILE, World, a_node, a_pod, a_world, collecting
from collector.sources_in_memory import Usage

from equipoise.collector.decisions.other_cluster import nodes_of_another_cluster, pods_of_another_cluster
from equipoise.collector.settings import CollectorSettings
from equipoise.runtime.kubernetes.client import NODES, PODS

HERE = [("shop", f"web-{number}") for number in range(20)]
THERE = [("shop", f"api-{number}") for number in range(20)]


def test_nodes_of_another_cluster_are_named() -> None:
    """With some of their names, and what to set."""
    why = nodes_of_another_cluster({"x-1", "x-2", "x-3", "a"}, {"a", "b"})
    assert "3 of 4 are unknown here): x-1, x-2, x-3" in why
    assert "1 of 1 are unknown here): x-1" in nodes_of_another_cluster({"x-1"}, {"a", "b"})
    assert "matchers" in why


def test_some_unknown_nodes_are_no_other_cluster() -> None:
    """Of deleted nodes there are samples for minutes; a series may have no name, or only an address."""
    assert nodes_of_another_cluster({"a", "gone"}, {"a", "b"}) == ""
    assert nodes_of_another_cluster({"a", "gone", "gone-too"}, {"a"}) == ""
    assert nodes_of_another_cluster({"a", "10.0.0.1", "10.0.0.2", "fd00::1", ""}, {"a"}) == ""
    assert nodes_of_another_cluster(set(), {"a"}) == ""


def test_pods_tell_clusters_apart_whose_nodes_have_the_same_names() -> None:
    """If most sampled pods are unknown, and most pods of this cluster have no samples."""
    assert "api-0" in pods_of_another_cluster(THERE, set(HERE), measured=0, settled=20)
    assert pods_of_another_cluster(HERE, set(HERE), measured=20, settled=20) == ""
    assert pods_of_another_cluster([*HERE, *THERE, ("a", "b")], set(HERE), measured=20, settled=20) == ""
    assert pods_of_another_cluster(THERE[:9], set(HERE), measured=0, settled=20) == ""
    assert pods_of_another_cluster(THERE, set(HERE[:9]), measured=0, settled=9) == ""


async def test_nothing_is_published_of_another_cluster(world: World) -> None:
    """The cycle has the reason, so that nothing is scored or evicted; /readyz has it, too."""
    await world.advance(60)
    before = world.nodes()["a"].sequence
    right = dict(world.source.nodes)
    world.source.nodes = {name: Usage(cpu=9.0) for name in ("a", "x-1", "x-2", "x-3", "x-4")}
    await world.advance(60)
    assert "reports nodes of another cluster" in world.cycle().problem
    assert any("x-1, x-2, x-3" in problem for problem in world.health.problems.values())
    assert world.nodes()["a"].sequence - before <= 4
    assert world.nodes()["a"].windows["5m"].mean.cpu != 9.0
    world.source.nodes = right
    await world.advance(60)
    assert world.cycle().problem == ""


async def test_another_cluster_with_the_same_node_names_is_found_by_its_pods() -> None:
    world = a_world()
    for number in range(12):
        world.kube.put(PODS, a_pod(f"web-{number}", "a"))
    world.source.pods = {("shop", f"api-{number}", "a"): Usage(cpu=0.5, memory=GIB) for number in range(12)}
    async with world.bus, collecting(world, CollectorSettings(leader_election=False, profile=NO_PROFILE)):
        await world.advance(60)
        assert "pods of another cluster, whose nodes have the same names" in world.cycle().problem
        before = world.nodes()
        await world.advance(60)
        assert world.nodes() == before
        world.source.pods = {("shop", f"web-{number}", "a"): Usage(cpu=0.5, memory=GIB) for number in range(12)}
        await world.advance(60)
        assert world.cycle().problem == ""
        assert world.nodes()["a"].pods


async def test_nodes_of_another_collector_are_no_other_cluster() -> None:
    """Both ask the same Prometheus; each measures the nodes of its selector."""
    world = a_world()
    for number in range(5):
        world.kube.put(NODES, a_node(f"other-{number}"))
        world.source.nodes[f"other-{number}"] = Usage()
    node = a_node("a")
    mine = msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels={"pool": "a"}))
    world.kube.put(NODES, mine)
    settings = CollectorSettings(leader_election=False, profile=NO_PROFILE, shard="a", node_selector={"pool": "a"})
    async with world.bus, collecting(world, settings):
        await world.advance(60)
        assert world.cycle().problem == ""
        assert world.cycle().fresh == 1
