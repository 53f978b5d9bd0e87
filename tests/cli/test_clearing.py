"""`equipoise annotations clear`: what it finds, what it removes, how fast, and what it says."""

import asyncio
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from builders import NOW
from cli.test_commands import invoke
from rich.console import Console

from equipoise.annotator.decisions.replicas import seat_for
from equipoise.cli.annotations.clear import OURS, Cleared, annotators, clear, find_marked, show
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE
from equipoise.contracts.kubernetes.crane import KEYS as CRANE
from equipoise.contracts.kubernetes.objects import Node, ObjectMeta, WorkloadObject
from equipoise.runtime.kubernetes.client import CLONE_SETS, DEPLOYMENTS, LEASES, NODES, REPLICA_SETS, KubeError
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube


class World:
    """Two annotated nodes, a plain one, and an annotated workload of each of two kinds with what was copied of one."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.kube = MemoryKube(self.clock)
        for name, annotations in (
            ("a", {LOAD: "{}", "theirs": "1"}),
            ("b", {LOAD: "{}", **dict.fromkeys(CRANE, "0.5,x")}),
            ("c", {"theirs": "1"}),
        ):
            self.kube.put(NODES, Node(metadata=ObjectMeta(name=name, annotations=annotations)))
        for resource in (REPLICA_SETS, CLONE_SETS, DEPLOYMENTS):
            metadata = ObjectMeta(name="web", namespace="shop", annotations={USAGE: "{}"})
            self.kube.put(resource, WorkloadObject(metadata=metadata))

    def annotations(self, resource: Any) -> Mapping[str, Mapping[str, str]]:
        return {value.metadata.name: value.metadata.annotations for value in self.kube.stored(resource)}

    async def cleared(self, *keys: str, seconds: float = 10) -> Cleared:
        marked = await find_marked(self.kube, keys)
        task = asyncio.create_task(clear(self.kube, self.clock, marked, rate=2, report=lambda _: None))
        await self.clock.advance(seconds)
        assert task.done(), "it takes longer"
        return await task


@pytest.fixture
def world() -> World:
    return World()


async def test_it_finds_what_has_our_annotations(world: World) -> None:
    """By key, of every kind; Deployments before the ReplicaSets that their controller copies annotations to."""
    marked = await find_marked(world.kube, OURS)
    assert [str(thing) for thing in marked] == [
        "Node/a",
        "Node/b",
        "Deployment/shop/web",
        "ReplicaSet/shop/web",
        "CloneSet/shop/web",
    ]
    assert all(set(thing.keys) <= set(OURS) for thing in marked)
    assert not any(call.verb == "annotate" for call in world.kube.calls)


async def test_a_kind_that_the_cluster_does_not_have_is_no_trouble(world: World) -> None:
    """Kruise and Argo are not everywhere."""
    world.kube.refuse("watch", resource="clonesets", status=404)
    assert "CloneSet/shop/web" not in map(str, await find_marked(world.kube, OURS))


async def test_it_removes_ours_and_nothing_else(world: World) -> None:
    """What others wrote stays, crane's keys among it."""
    result = await world.cleared(*OURS)
    assert result.removed == {"Node": 2, "Deployment": 1, "ReplicaSet": 1, "CloneSet": 1}
    assert (result.gone, result.failed) == (0, {})
    nodes = world.annotations(NODES)
    assert (nodes["a"], nodes["c"]) == ({"theirs": "1"}, {"theirs": "1"})
    assert nodes["b"].keys() == set(CRANE)
    for resource in (DEPLOYMENTS, REPLICA_SETS, CLONE_SETS):
        assert world.annotations(resource) == {"web": {}}
    assert not await find_marked(world.kube, OURS)


async def test_crane_s_are_removed_when_asked_for(world: World) -> None:
    """With ours, in one write."""
    result = await world.cleared(*OURS, *CRANE)
    assert result.removed["Node"] == 2
    assert world.annotations(NODES)["b"] == {}


async def test_it_is_paced(world: World) -> None:
    """Five objects at two a second."""
    with pytest.raises(AssertionError, match="takes longer"):
        await world.cleared(*OURS, seconds=1.9)
    assert sum(call.verb == "annotate" for call in world.kube.calls) == 4


async def test_one_that_cannot_be_written_does_not_stop_the_others(world: World) -> None:
    """It is told of; one that is gone is no failure; a server that asks to wait is asked again."""
    world.kube.refuse("annotate", resource="nodes", name="a", status=403)
    world.kube.fail_next("annotate", resource="nodes", name="b", status=404)
    world.kube.fail_next("annotate", resource="deployments", status=429, retry_after=2)
    result = await world.cleared(*OURS)
    assert list(result.failed) == ["Node/a"]
    assert (result.gone, result.removed) == (1, {"Deployment": 1, "ReplicaSet": 1, "CloneSet": 1})


async def test_a_server_that_is_away_ends_it(world: World) -> None:
    """Five thousand failures would say no more than one."""
    world.kube.refuse("annotate", status=0)
    with pytest.raises(KubeError):
        await world.cleared(*OURS)


async def test_annotators_that_are_alive_are_named(world: World) -> None:
    """They would write everything again."""
    now = datetime.fromtimestamp(NOW, UTC)
    await world.kube.create(LEASES, seat_for("annotator-1", [], "ours", now, 30))
    assert await annotators(world.kube, "ours", world.clock) == ["annotator-1"]
    await world.clock.advance(31)
    assert await annotators(world.kube, "ours", world.clock) == []


def shown(result: Cleared) -> str:
    text = io.StringIO()
    show(result, Console(file=text, width=400))
    return text.getvalue()


def test_what_it_says() -> None:
    """How many of each kind, whether anything was removed, who will undo it."""
    found = {"Node": 2, "Deployment": 1}
    dry = shown(Cleared(dry_run=True, found=found, annotators=["one"]))
    assert "annotated: 2 Nodes, 1 Deployment. Nothing was removed: --yes does it" in dry
    assert "one will write again" in dry
    done = shown(Cleared(dry_run=False, found=found, removed={"Node": 1}, gone=1, failed={"Deployment/shop/web": "no"}))
    assert "removed from 1 Node; 1 were deleted meanwhile" in done
    assert "failed: Deployment/shop/web: no" in done
    assert shown(Cleared(dry_run=True, found={})) == "nothing is annotated\n"


def test_a_wrong_rate_is_wrong_input() -> None:
    """And told before anything is asked of a cluster."""
    answer = invoke("annotations", "clear", "--rate", "0")
    assert answer.exit_code == 2
    assert "--rate" in answer.stderr


def test_no_cluster_is_wrong_input() -> None:
    """With what to do."""
    answer = invoke("annotations", "clear", "-o", "json", "--kubeconfig", "/nowhere")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "there is no kubeconfig at /nowhere" in answer.stderr
