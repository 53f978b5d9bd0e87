"""`equipoise annotations clear`: what it finds and removes, its rate, and its output."""

import asyncio
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from builders import NOW
from cli.programs import invoke
from kube_objects import a_pod
from rich.console import Console

from equipoise.annotator.decisions.replicas import lease_for
from equipoise.cli.annotations.clear import (
    OURS,
    ClearResult,
    active_annotators,
    clear,
    find_annotated,
    show,
)
from equipoise.contracts.eviction.deletion_cost import DELETION_COST
from equipoise.contracts.kubernetes.annotations import LOAD, RECLAIMED, USAGE
from equipoise.contracts.kubernetes.crane import KEYS as CRANE
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.runtime.kubernetes.client import CLONE_SETS, DEPLOYMENTS, LEASES, NODES, PODS, REPLICA_SETS, KubeError
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube


class World:
    """Two annotated nodes, one without our annotations, and three annotated workloads."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=NOW)
        self.kube = MemoryKube(self.clock)
        for name, annotations in (
            ("a", {LOAD: "{}", RECLAIMED: "{}", "theirs": "1"}),
            ("b", {LOAD: "{}", **dict.fromkeys(CRANE, "0.5,x")}),
            ("c", {"theirs": "1"}),
        ):
            self.kube.put(NODES, Node(metadata=ObjectMeta(name=name, annotations=annotations)))
        for resource in (REPLICA_SETS, CLONE_SETS, DEPLOYMENTS):
            metadata = ObjectMeta(name="web", namespace="shop", annotations={USAGE: "{}"})
            self.kube.put(resource, WorkloadObject(metadata=metadata))

    def annotations(self, resource: Any) -> Mapping[str, Mapping[str, str]]:
        return {value.metadata.name: value.metadata.annotations for value in self.kube.stored(resource)}

    async def cleared(self, *keys: str, seconds: float = 10) -> ClearResult:
        found = await find_annotated(self.kube, keys)
        task = asyncio.create_task(clear(self.kube, self.clock, found, rate=2))
        await self.clock.advance(seconds)
        assert task.done(), "it takes longer"
        return await task


@pytest.fixture
def world() -> World:
    return World()


async def test_it_finds_all_objects_with_our_annotations(world: World) -> None:
    """Of every kind; Deployments before the ReplicaSets that their controller copies annotations to."""
    found = await find_annotated(world.kube, OURS)
    assert [str(each) for each in found] == [
        "Node/a",
        "Node/b",
        "Deployment/shop/web",
        "ReplicaSet/shop/web",
        "CloneSet/shop/web",
    ]
    assert all(set(each.keys) <= set(OURS) for each in found)
    assert not any(call.verb == "annotate" for call in world.kube.calls)


async def test_a_kind_that_the_cluster_does_not_have_is_skipped(world: World) -> None:
    """Kruise and Argo are not everywhere."""
    world.kube.refuse("watch", resource="clonesets", status=404)
    assert "CloneSet/shop/web" not in map(str, await find_annotated(world.kube, OURS))


async def test_it_removes_only_our_annotations(world: World) -> None:
    """Annotations of others are kept, those of crane-scheduler included."""
    result = await world.cleared(*OURS)
    assert result.removed == {"Node": 2, "Deployment": 1, "ReplicaSet": 1, "CloneSet": 1}
    assert (result.deleted, result.failed) == (0, {})
    nodes = world.annotations(NODES)
    assert (nodes["a"], nodes["c"]) == ({"theirs": "1"}, {"theirs": "1"})
    assert nodes["b"].keys() == set(CRANE)
    for resource in (DEPLOYMENTS, REPLICA_SETS, CLONE_SETS):
        assert world.annotations(resource) == {"web": {}}
    assert not await find_annotated(world.kube, OURS)


async def test_the_taint_of_nodes_that_were_being_emptied_is_removed(world: World) -> None:
    """With and without annotations of ours. Other taints are kept."""
    theirs, ours = Taint(key="dedicated", effect="NoSchedule"), consolidation_taint(NOW)
    for name, annotations in (("a", {LOAD: "{}", "theirs": "1"}), ("c", {"theirs": "1"})):
        metadata = ObjectMeta(name=name, uid=f"uid-{name}", annotations=annotations)
        world.kube.put(NODES, Node(metadata=metadata, spec=NodeSpec(taints=[theirs, ours])))
    result = await world.cleared(*OURS)

    assert (result.found["Node"], result.removed["Node"], result.tainted) == (3, 3, 2)
    nodes = {node.metadata.name: node for node in world.kube.stored(NODES)}
    assert all(nodes[name].spec.taints == [theirs] for name in ("a", "c"))
    assert nodes["a"].metadata.annotations == nodes["c"].metadata.annotations == {"theirs": "1"}
    assert not await find_annotated(world.kube, OURS)


async def test_deletion_costs_of_equipoise_are_removed_from_pods(world: World) -> None:
    """Those of other writers are kept, also if they are written after ours was found."""
    for name, cost in (("ours", "-9999"), ("theirs", "-1"), ("changed", "-9000")):
        world.kube.put(PODS, a_pod(name, metadata={"annotations": {DELETION_COST: cost, USAGE: "{}"}}))
    found = await find_annotated(world.kube, OURS)
    world.kube.put(PODS, a_pod("changed", metadata={"annotations": {DELETION_COST: "5"}}))
    task = asyncio.create_task(clear(world.kube, world.clock, found, rate=100))
    await world.clock.advance(10)
    result = await task

    assert (result.found["Pod"], result.removed["Pod"]) == (2, 1)
    assert world.annotations(PODS) == {
        "ours": {USAGE: "{}"},
        "theirs": {DELETION_COST: "-1", USAGE: "{}"},
        "changed": {DELETION_COST: "5"},
    }


async def test_annotations_of_crane_scheduler_are_removed_on_request(world: World) -> None:
    """With ours, in one request."""
    result = await world.cleared(*OURS, *CRANE)
    assert result.removed["Node"] == 2
    assert world.annotations(NODES)["b"] == {}


async def test_it_respects_the_rate(world: World) -> None:
    """Five objects at two per second."""
    with pytest.raises(AssertionError, match="takes longer"):
        await world.cleared(*OURS, seconds=1.9)
    assert sum(call.verb == "annotate" for call in world.kube.calls) == 4


async def test_an_object_that_somebody_changes_at_the_same_time_is_not_reported_as_deleted(world: World) -> None:
    """It still has its annotations. One that was created anew is another object."""
    for name in ("a", "b"):
        world.kube.put(NODES, Node(metadata=ObjectMeta(name=name, uid="first", annotations={LOAD: "{}"})))
    found = await find_annotated(world.kube, OURS)
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="b", uid="second")))
    world.kube.fail_next("annotate", resource="nodes", name="a", status=409)
    task = asyncio.create_task(clear(world.kube, world.clock, found, rate=2))
    await world.clock.advance(10)
    result = await task
    assert (list(result.failed), result.deleted) == (["Node/a"], 1)


async def test_an_object_that_cannot_be_written_does_not_stop_the_others(world: World) -> None:
    """It is reported; a deleted object is no failure; after 429 the request is repeated."""
    world.kube.refuse("annotate", resource="nodes", name="a", status=403)
    world.kube.fail_next("annotate", resource="nodes", name="b", status=404)
    world.kube.fail_next("annotate", resource="deployments", status=429, retry_after=2)
    result = await world.cleared(*OURS)
    assert list(result.failed) == ["Node/a"]
    assert (result.deleted, result.removed) == (1, {"Deployment": 1, "ReplicaSet": 1, "CloneSet": 1})


async def test_an_unavailable_api_server_ends_the_command(world: World) -> None:
    """One error is enough."""
    world.kube.refuse("annotate", status=0)
    with pytest.raises(KubeError):
        await world.cleared(*OURS)


async def test_an_interrupted_command_prints_how_far_it_got(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """At Ctrl-C, and when the API server is lost."""
    found = await find_annotated(world.kube, OURS)
    task = asyncio.create_task(clear(world.kube, world.clock, found, rate=2))
    await world.clock.advance(0.9)
    task.cancel()
    await asyncio.wait([task])
    assert "interrupted after 2 of 5 objects; run the same command again" in capsys.readouterr().err


async def test_active_annotators_are_listed(world: World) -> None:
    """They would write the annotations again."""
    now = datetime.fromtimestamp(NOW, UTC)
    await world.kube.create(LEASES, lease_for("annotator-1", [], "ours", now, 30))
    assert await active_annotators(world.kube, "ours", world.clock) == ["annotator-1"]
    await world.clock.advance(31)
    assert await active_annotators(world.kube, "ours", world.clock) == []


def shown(result: ClearResult) -> str:
    text = io.StringIO()
    show(result, Console(file=text, width=400), namespace="ours")
    return text.getvalue()


def test_the_output_counts_objects_by_kind() -> None:
    """With failures, and with the annotators that will write again."""
    found = {"Node": 2, "Deployment": 1}
    dry = shown(ClearResult(dry_run=True, found=found, active_annotators=["one"]))
    assert "annotations found on 2 Nodes, 1 Deployment; use --yes to remove them" in dry
    assert "active annotators will write the annotations again: one;" in dry
    assert "`kubectl -n ours scale deployment equipoise-annotator --replicas 0`" in dry
    done = shown(
        ClearResult(dry_run=False, found=found, removed={"Node": 1}, deleted=1, failed={"Deployment/shop/web": "no"})
    )
    assert "annotations removed from 1 Node; 1 objects no longer exist" in done
    assert "failed: Deployment/shop/web: no" in done
    assert shown(ClearResult(dry_run=True, found={})) == "no annotations found\n"


def test_an_invalid_rate_is_invalid_input() -> None:
    """Before any request to a cluster."""
    result = invoke("annotations", "clear", "--rate", "0")
    assert result.exit_code == 2
    assert "--rate" in result.stderr


def test_a_missing_kubeconfig_is_invalid_input() -> None:
    """The error names the option to use."""
    result = invoke("annotations", "clear", "-o", "json", "--kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no kubeconfig at /nowhere: use --kubeconfig" in result.stderr
