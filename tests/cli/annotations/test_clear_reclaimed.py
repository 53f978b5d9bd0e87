"""`equipoise annotations clear --reclaimed`: what it removes, in memory and at a real API server, and its output."""

import asyncio
import io
from functools import partial
from typing import Any

import pytest
from builders import NOW
from cli.programs import invoke, run
from cluster_fixtures import StartCluster
from kube_objects import a_pod
from reclaimer.worlds import NAMES
from rich.console import Console

from equipoise.cli.annotations.clear_reclaimed import (
    ClearedNodes,
    clear_nodes,
    find_offering,
    find_users,
    show,
)
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.runtime.kubernetes.client import NODES, PODS, KubeError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube
from equipoise.testbed.objects import node, pod, pod_template

BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}


def a_batch_pod(name: str, on: str, **fields: Any) -> Pod:
    container = Container(name="main", resources=ResourceRequirements(requests=BATCH))
    return a_pod(name, node=on, spec={"containers": [container]}, **fields)


class World:
    """Nodes a, b and c offer; d does not. A batch pod runs on b, a finished one was on a."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.kube = MemoryKube(self.clock)
        for name, amounts in (("a", NAMES), ("b", NAMES), ("c", NAMES[2:]), ("d", ())):
            quantities = {"cpu": "8", "memory": "32Gi", "example.com/gpu": "1", **dict.fromkeys(amounts, "1000")}
            status = NodeStatus(capacity=quantities, allocatable=quantities)
            self.kube.put(NODES, Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), status=status))
        self.kube.put(PODS, a_batch_pod("batch-1", "b"))
        self.kube.put(PODS, a_batch_pod("batch-2", "a", status={"phase": "Succeeded"}))
        self.kube.put(PODS, a_batch_pod("batch-3", ""))
        self.kube.put(PODS, a_pod("web-1", node="c"))

    async def cleared(self, seconds: float = 10) -> ClearedNodes:
        found = await find_offering(self.kube)
        task = asyncio.create_task(clear_nodes(self.kube, self.clock, found, rate=2))
        await self.clock.advance(seconds)
        assert task.done(), "it takes longer"
        return await task

    @property
    def offering(self) -> dict[str, set[str]]:
        """By node: names of reclaimed resources in its capacity; the same are in its allocatable resources."""
        nodes = self.kube.stored(NODES)
        assert all(each.status.capacity == each.status.allocatable for each in nodes)
        return {each.metadata.name: set(NAMES) & each.status.capacity.keys() for each in nodes}


@pytest.fixture
def world() -> World:
    return World()


async def test_it_removes_the_amounts_where_no_bound_pod_requests_them(world: World) -> None:
    result = await world.cleared()
    assert world.offering == {"a": set(), "b": set(NAMES), "c": set(), "d": set()}
    assert (result.found, result.removed, result.in_use) == (3, 2, {"b": ["shop/batch-1"]})
    assert all(each.status.capacity.keys() == {"cpu", "memory", "example.com/gpu"} for each in stored(world, "acd"))


def stored(world: World, names: str) -> list[Node]:
    return [each for each in world.kube.stored(NODES) if each.metadata.name in names]


async def test_without_confirmation_it_only_reads(world: World) -> None:
    assert [each.name for each in await find_offering(world.kube)] == ["a", "b", "c"]
    assert await find_users(world.kube) == {"b": ["shop/batch-1"]}
    assert not any(call.verb == "update_status" for call in world.kube.calls)


async def test_a_pod_that_was_bound_in_the_meantime_keeps_the_amounts(world: World) -> None:
    """The pods of a node are read just before its status is written."""
    found = await find_offering(world.kube)
    task = asyncio.create_task(clear_nodes(world.kube, world.clock, found, rate=2))
    await world.clock.advance(0.6)
    world.kube.put(PODS, a_batch_pod("batch-4", "c"))
    await world.clock.advance(10)
    assert (await task).in_use == {"b": ["shop/batch-1"], "c": ["shop/batch-4"]}
    assert world.offering["c"] == set(NAMES[2:])


async def test_a_node_whose_pods_cannot_be_read_keeps_the_amounts(world: World) -> None:
    world.kube.refuse("list", resource="pods", status=403)
    result = await world.cleared()
    assert result.failed.keys() == {"a", "b", "c"}
    assert world.offering["a"] == set(NAMES)


async def test_a_node_that_cannot_be_written_does_not_stop_the_others(world: World) -> None:
    """A deleted node is no failure."""
    world.kube.refuse("update_status", name="a", status=403)
    world.kube.fail_next("update_status", name="c", status=404)
    result = await world.cleared()
    assert (list(result.failed), result.deleted, result.removed) == (["a"], 1, 0)


async def test_an_unavailable_api_server_ends_the_command(world: World) -> None:
    world.kube.refuse("update_status", status=0)
    with pytest.raises(KubeError):
        await world.cleared()


async def test_it_respects_the_rate(world: World) -> None:
    with pytest.raises(AssertionError, match="takes longer"):
        await world.cleared(seconds=0.9)
    assert world.offering["c"] == set(NAMES[2:])


async def test_an_interrupted_command_prints_how_far_it_got(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    found = await find_offering(world.kube)
    task = asyncio.create_task(clear_nodes(world.kube, world.clock, found, rate=2))
    await world.clock.advance(0.6)
    task.cancel()
    await asyncio.wait([task])
    assert "interrupted after 2 of 3 nodes; run the same command again" in capsys.readouterr().err


def shown(result: ClearedNodes) -> str:
    text = io.StringIO()
    show(result, Console(file=text, width=400), namespace="ours")
    return text.getvalue()


def test_the_output_names_nodes_in_use_and_who_writes_again() -> None:
    pods = [f"shop/batch-{number}" for number in range(5)]
    dry = shown(ClearedNodes(dry_run=True, found=3, in_use={"b": pods}, active_reclaimer="Lease x is held by y"))
    assert "in the status of 3 nodes, of which pods request them on 1; use --yes to remove them from the other 2" in dry
    assert "in use: b: requested by shop/batch-0, shop/batch-1, shop/batch-2 and 2 more" in dry
    assert "Lease x is held by y: with reclaimer.mode enforce it writes the amounts again; stop it with" in dry
    assert "`kubectl -n ours scale deployment equipoise-reclaimer --replicas 0`" in dry
    done = shown(ClearedNodes(dry_run=False, found=3, removed=1, deleted=1, failed={"a": "no"}))
    assert done == "amounts removed from the status of 1 node\n1 node no longer in the cluster\nfailed: a: no\n"
    assert shown(ClearedNodes(dry_run=True, found=0)) == "no node offers reclaimed resources\n"


def test_annotations_and_amounts_are_not_removed_together() -> None:
    result = invoke("annotations", "clear", "--reclaimed", "--crane")
    assert result.exit_code == 2
    assert "--crane removes annotations: omit it, or --reclaimed" in result.stderr


async def test_at_a_real_api_server_the_amounts_of_unused_nodes_are_removed(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha", cpu=10), node("beta", cpu=10)])
    amounts = dict.fromkeys(NAMES, "4000")
    async with cluster.api() as api:
        for name in ("alpha", "beta"):
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            patch = partial(api.request, content_type="application/merge-patch+json")
            await patch("PATCH", f"/api/v1/nodes/{name}/status", body)
        work = pod("batch-1", pod_template("batch", spec={"nodeName": "beta"}))
        work["spec"]["containers"][0]["resources"] = {"requests": BATCH, "limits": BATCH}
        await api.request("POST", "/api/v1/namespaces/default/pods", work)
    config = str(cluster.kubeconfig)

    code, text = await run("annotations", "clear", "--reclaimed", KUBECONFIG=config)
    assert code == 0, text
    assert "in the status of 2 nodes, of which pods request them on 1; use --yes" in text
    code, text = await run("annotations", "clear", "--reclaimed", "--yes", KUBECONFIG=config)
    assert code == 1, text
    assert "amounts removed from the status of 1 node" in text
    assert "in use: beta: requested by default/batch-1" in text
    assert "the amounts of 1 node remain" in text
    assert await names_in_status(cluster, "alpha") == set()
    assert await names_in_status(cluster, "beta") == set(NAMES)


async def names_in_status(cluster: Cluster, name: str) -> set[str]:
    async with cluster.api() as api:
        status = (await api.request("GET", f"/api/v1/nodes/{name}"))["status"]
    return set(NAMES) & (status["capacity"].keys() | status["allocatable"].keys())
