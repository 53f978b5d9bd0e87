"""Reading what stands on workloads, and what becomes of a refusal."""

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
    """An API server with a workload of each kind, somebody who remembers, and what is told."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.kube = MemoryKube(self.clock)
        self.standing: dict[Workload, Mapping[str, str]] = {}
        self.problems: dict[str, str] = {}
        for resource in KINDS:
            metadata = ObjectMeta(name="web", namespace="shop", annotations={"kind": resource.kind})
            self.kube.put(resource, WorkloadObject(metadata=metadata))

    async def restore(self, standing: Mapping[Workload, Mapping[str, str]]) -> int:
        self.standing.update(standing)
        return len(standing)

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
    """By the names that the bus has for workloads; then there is nothing left to do."""
    async with world.reading() as task:
        assert task.done()
    groups = {"CloneSet": "apps.kruise.io", "Rollout": "argoproj.io"}
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CloneSet", "Rollout")
    expected = {a_workload(kind=kind, group=groups.get(kind, "apps")): {"kind": kind} for kind in kinds}
    assert expected == world.standing
    assert {} == world.problems


@pytest.mark.parametrize(("status", "told"), [(403, "forbidden to list deployments.apps"), (500, "500 Injected")])
async def test_what_was_refused_is_asked_for_again(world: World, status: int, told: str) -> None:
    """Told meanwhile; the others are read at once, and not again."""
    world.kube.faults.fail_next("list", resource="deployments", status=status)
    async with world.reading() as task:
        assert told in world.problems[PROBLEM]
        assert {resource.kind for resource in KINDS} - {"Deployment"} == {found.kind for found in world.standing}

        await world.clock.advance(RETRY_PERIOD)
        assert task.done()
    assert a_workload() in world.standing
    assert {} == world.problems
    assert (2, 1) == (world.queries("deployments"), world.queries("statefulsets"))


async def test_a_kind_that_is_not_there_is_not_missing(world: World) -> None:
    """Not every cluster has Kruise or Argo."""
    world.kube.faults.refuse("list", resource="clonesets", status=404)
    async with world.reading() as task:
        assert task.done()
        assert {} == world.problems
        assert len(KINDS) - 1 == len(world.standing)


async def test_who_does_not_work_any_more_has_no_problem(world: World) -> None:
    """A replica that lost its shards does not wait for a right."""
    world.kube.faults.refuse("list")
    async with world.reading():
        assert {PROBLEM} == world.problems.keys()
    assert {} == world.problems
