"""Deschedulers are suspended."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.fakes import epoch_of
from faults.rig import Program, Rig


async def stopped_descheduler(rig: Rig, extent: Extent) -> None:
    """The leading descheduler is suspended until another leads, and resumes; intents in its name arrive late."""
    await rig.purge_outcomes()
    await rig.start("binder", 2)
    deschedulers = await rig.start("descheduler", 2)
    async with changing_load(rig):
        for _ in range(extent.times):
            await rig.evictions(2)
            leader = await _leader(rig, deschedulers)
            before = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN))
            leader.send(signal.SIGSTOP)

            async def another_leads(before: Any = before) -> bool:
                now = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN))
                return now.transitions > before.transitions and now.holder not in ("", before.holder)

            await rig.until(another_leads, "the other descheduler leads")
            await rig.evictions(1)
            rig.descheduler.epoch_held = False
            rig.descheduler.epoch = before
            rig.descheduler.mix = {}
            await rig.descheduler.propose(4)
            leader.send(signal.SIGCONT)
            await rig.descheduler.propose(4)
            rig.descheduler.epoch = None
            await rig.all_settled()
        await rig.evictions(2)


async def _leader(rig: Rig, deschedulers: list[Program]) -> Program:
    found: list[Program] = []

    async def known() -> bool:
        reports = [await program.readiness() for program in deschedulers]
        found[:] = [
            program for program, report in zip(deschedulers, reports, strict=True) if report and report["leading"]
        ]
        return len(found) == 1

    await rig.until(known, "one descheduler leads")
    return found[0]


@asynccontextmanager
async def changing_load(rig: Rig) -> AsyncIterator[None]:
    """Only real deschedulers propose, and always have a reason: the nodes with most pods become hot."""
    rig.descheduler.epoch = None

    async def change() -> None:
        while True:
            pods: dict[str, int] = dict.fromkeys(cluster_setup.NODES, 0)
            for pod in rig.collector.pods:
                pods[pod.spec.node_name] += 1
            rig.collector.hot = frozenset(sorted(pods, key=lambda node: -pods[node])[:3])
            await asyncio.sleep(4.0)

    task = asyncio.create_task(change())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        rig.collector.hot = frozenset()


FAULTS = (fault(stopped_descheduler, 8, intents=10, evictions=5),)
