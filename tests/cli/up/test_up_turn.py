"""The services of two Equipoises never share the Leases of a namespace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import pytest

from equipoise.cli.up.turn import UP_LEASE, Displaced, work_in_turn
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"


class Up:
    """One `up`: whether its services run, and what it printed."""

    def __init__(self) -> None:
        self.works = False
        self.printed: list[str] = []
        self.displaced = asyncio.Event()

    async def work(self) -> None:
        self.works = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run())
        finally:
            self.works = False

    async def _run(self) -> None:
        await self.displaced.wait()
        self.displaced.clear()
        raise Displaced("collector is a standby")


@asynccontextmanager
async def running(kube: MemoryKube, clock: ManualClock, name: str) -> AsyncIterator[Up]:
    up = Up()
    task = asyncio.create_task(
        work_in_turn(
            kube, clock, namespace=OWN, identity=name, services=("collector", "descheduler"), work=up.work,
            report=up.printed.append,
        )
    )  # fmt: skip
    try:
        yield up
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def held(kube: MemoryKube, clock: ManualClock, name: str, holder: str) -> None:
    spec = LeaseSpec(
        holder_identity=holder, lease_duration_seconds=15, renew_time=datetime.fromtimestamp(clock.now(), UTC)
    )
    kube.put(LEASES, Lease(metadata=ObjectMeta(name=name, namespace=OWN), spec=spec))


async def test_of_two_one_works_and_the_other_one_follows() -> None:
    """Also if both start at once."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    async with AsyncExitStack() as ends:
        first = await ends.enter_async_context(running(kube, clock, "first"))
        async with running(kube, clock, "second") as second:
            await clock.advance(5)
            assert first.works
            assert not second.works
            assert second.printed == [
                f"waits: another `equipoise up` works on this cluster: Lease {OWN}/{UP_LEASE} is held by first"
            ]
            await ends.aclose()
            await clock.advance(5)
            assert second.works


async def test_services_start_when_an_installation_has_released_its_leases() -> None:
    clock = ManualClock()
    kube = MemoryKube(clock)
    held(kube, clock, "equipoise-descheduler", "installed")
    async with running(kube, clock, "up") as up:
        await clock.advance(10)
        assert not up.works
        assert up.printed == [
            "waits: another Equipoise works on this cluster: Lease equipoise-system/equipoise-descheduler is held by"
            " installed"
        ]
        await clock.advance(10)  # it was not renewed
        assert up.works


async def test_all_services_end_when_those_of_an_installation_keep_a_lease() -> None:
    """They start again when it ends."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    async with running(kube, clock, "up") as up:
        await clock.advance(5)
        assert up.works
        held(kube, clock, "equipoise-collector", "installed")
        up.displaced.set()
        await clock.advance(5)
        assert not up.works
        assert "stopped: collector is a standby" in up.printed
        await clock.advance(20)
        assert up.works


async def test_nothing_starts_while_the_leases_cannot_be_read() -> None:
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.refuse("list")
    async with running(kube, clock, "up") as up:
        await clock.advance(5)
        assert not up.works
        assert "who holds the Leases is unknown" in up.printed[-1]
