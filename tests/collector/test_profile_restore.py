"""Reading the annotations of workloads, and retries."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from builders import NOW, a_workload

from equipoise.collector.shell.profile_restore import KINDS, PROBLEM, RETRY_PERIOD, restore_profiles
from equipoise.contracts.kubernetes.objects import ObjectMeta, WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube


class World:
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
def world() -> World:
    return World()


async def test_each_kind_is_read_once(world: World) -> None:
    """By the workload keys of the bus."""
    async with world.reading() as task:
        assert task.done()
    groups = {"CloneSet": "apps.kruise.io", "Rollout": "argoproj.io"}
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CloneSet", "Rollout")
    expected = {a_workload(kind=kind, group=groups.get(kind, "apps")): {"kind": kind} for kind in kinds}
    assert expected == world.restored
    assert {} == world.problems


@pytest.mark.parametrize(("status", "reason"), [(403, "forbidden to list deployments.apps"), (500, "500 Injected")])
async def test_a_kind_that_could_not_be_listed_is_listed_again(world: World, status: int, reason: str) -> None:
    """The problem is reported meanwhile; the other kinds are read once."""
    world.kube.faults.fail_next("list", resource="deployments", status=status)
    async with world.reading() as task:
        assert reason in world.problems[PROBLEM]
        assert {resource.kind for resource in KINDS} - {"Deployment"} == {found.kind for found in world.restored}

        await world.clock.advance(RETRY_PERIOD)
        assert task.done()
    assert a_workload() in world.restored
    assert {} == world.problems
    assert (2, 1) == (world.queries("deployments"), world.queries("statefulsets"))


async def test_a_kind_that_the_cluster_does_not_have_is_skipped(world: World) -> None:
    """Such as those of Kruise or Argo."""
    world.kube.faults.refuse("list", resource="clonesets", status=404)
    async with world.reading() as task:
        assert task.done()
        assert {} == world.problems
        assert len(KINDS) - 1 == len(world.restored)


async def test_a_canceled_restore_ends_its_problem(world: World) -> None:
    """A replica that lost its shards reports nothing."""
    world.kube.faults.refuse("list")
    async with world.reading():
        assert {PROBLEM} == world.problems.keys()
    assert {} == world.problems
