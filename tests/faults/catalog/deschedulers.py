"""Deschedulers are suspended, cut off from the API server, and work against other controllers."""

import asyncio
import math
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from equipoise.contracts.messages.values.lease import LeaseEpoch
from faults import cluster_setup
from faults.background import background
from faults.catalog.fault import Extent, fault
from faults.fault_proxy import abort_connection, hold
from faults.history import HARNESS, History
from faults.rig import TIMEOUT, Program, Rig

TRANSIT = 1.0
"""Seconds that a request or message may take."""


async def stopped_descheduler(rig: Rig, extent: Extent) -> None:
    """The leading descheduler is suspended until another leads, and resumes; intents in its name arrive late."""
    async with descheduling(rig, 2) as deschedulers:
        for _ in range(extent.times):
            await rig.evictions(2)
            leader = await _leader(rig, deschedulers)
            before = await rig.lease_epoch()
            leader.send(signal.SIGSTOP)
            await rig.until(lambda before=before: _another_leads(rig, before), "the other descheduler leads")
            await rig.evictions(1)
            rig.descheduler.epoch, rig.descheduler.epoch_held, rig.descheduler.mix = before, False, {}
            await rig.descheduler.propose(4)
            leader.send(signal.SIGCONT)
            await rig.descheduler.propose(4)
            rig.descheduler.epoch = None
            await rig.all_settled()
        await rig.evictions(2)


async def partitioned_descheduler(rig: Rig, extent: Extent) -> None:
    """The leading descheduler is cut off from the API server, not from NATS: its requests fail or get no response."""
    async with descheduling(rig, 2) as deschedulers:
        for _ in range(extent.times):
            await rig.evictions(2)
            leader = await _leader(rig, deschedulers)
            token = rig.tokens[leader.name]
            before = await rig.lease_epoch()
            rule = rig.proxy.rule(rig.generator.choice((hold, abort_connection)), token=token)
            rig.proxy.half_open("", token=token)
            await rig.until(lambda before=before: _another_leads(rig, before), "the other descheduler leads")
            await rig.evictions(1)
            rig.descheduler.epoch, rig.descheduler.epoch_held, rig.descheduler.mix = before, False, {}
            await rig.descheduler.propose(4)
            rig.descheduler.epoch = None
            await rig.all_settled()
            rule.lift()
            rig.proxy.clear()
            await rig.until(lambda leader=leader: _follows(leader), f"{leader.name} is ready and does not lead")
        await rig.evictions(2)


async def _another_leads(rig: Rig, before: LeaseEpoch) -> bool:
    now = await rig.lease_epoch()
    return now.transitions > before.transitions and now.holder not in ("", before.holder)


async def _follows(program: Program) -> bool:
    report = await program.readiness()
    return report is not None and bool(report["ready"]) and not report["leading"]


def one_publisher(history: History) -> list[str]:
    """Once a descheduler has published an intent, no earlier leader publishes one."""
    wrong = []
    newest, since = -1, 0.0
    for published in sorted(history.new_intents, key=lambda each: each.at):
        epoch = published.intent.epoch.transitions
        if published.intent.strategy == HARNESS:
            continue
        if epoch < newest and published.at > since + TRANSIT:
            wrong.append(
                f"{published.intent.pod}: proposed by leader {epoch} {published.at - since:.1f} s after {newest}"
            )
        if epoch > newest:
            newest, since = epoch, published.at
    return wrong


async def competing_controllers(rig: Rig, extent: Extent) -> None:
    """A controller taints two other nodes every two seconds, and an autoscaler changes the replicas of two Deployments
    every three, while a descheduler moves pods."""
    scaled = rig.generator.sample(cluster_setup.MOVABLE, 2)
    async with descheduling(rig):
        try:
            async with background(_taint_nodes(rig), _scale(rig, scaled)):
                for _ in range(extent.times):
                    await rig.evictions(extent.evictions, seconds=2 * TIMEOUT)
        finally:
            await asyncio.gather(*(_set_taints(rig, node, []) for node in cluster_setup.NODES))
            await asyncio.gather(*(_set_replicas(rig, name, cluster_setup.REPLICAS) for name in scaled))
    await rig.all_replicas_ready()


async def _taint_nodes(rig: Rig) -> None:
    tainted: list[str] = []
    while True:
        chosen = rig.generator.sample(cluster_setup.NODES, 2)
        taint = {"key": "example.com/fault", "effect": "NoSchedule"}
        await asyncio.gather(*(_set_taints(rig, node, []) for node in tainted))
        await asyncio.gather(*(_set_taints(rig, node, [taint]) for node in chosen))
        tainted = chosen
        await asyncio.sleep(2.0)


async def _scale(rig: Rig, names: list[str]) -> None:
    while True:
        for name in names:
            await _set_replicas(rig, name, cluster_setup.REPLICAS + rig.generator.choice((0, 1, 2)))
        await asyncio.sleep(3.0)


async def _set_taints(rig: Rig, node: str, taints: list[dict[str, str]]) -> None:
    await rig.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})


async def _set_replicas(rig: Rig, name: str, replicas: int) -> None:
    await rig.api.patch(f"{cluster_setup.APPS}/deployments/{name}", {"spec": {"replicas": replicas}})


def cooldowns_hold(history: History) -> list[str]:
    """The descheduler evicts a workload's pods no more often than its cooldown allows: this many times per hour."""
    wrong = []
    proposed = {each.intent.pod_uid for each in history.new_intents if each.intent.strategy != HARNESS}
    last: dict[str, float] = {}
    for post in history.new_evictions:
        if post.uid not in proposed:
            continue
        before = last.get(post.workload, -math.inf)
        if post.at - before < cluster_setup.COOLDOWN - TRANSIT:
            wrong.append(f"{post.pod}: evicted {post.at - before:.1f} s after another pod of {post.workload}")
        last[post.workload] = post.at
    return wrong


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
async def descheduling(rig: Rig, count: int = 1) -> AsyncIterator[list[Program]]:
    """Two binders and this many deschedulers, which always have a reason; their cooldowns ignore earlier runs."""
    await rig.purge_outcomes()
    await rig.start("binder", 2)
    deschedulers = await rig.start("descheduler", count)
    async with changing_load(rig):
        yield deschedulers


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

    try:
        async with background(change()):
            yield
    finally:
        rig.collector.hot = frozenset()


FAULTS = (
    fault(stopped_descheduler, 8, intents=10, evictions=5),
    fault(partitioned_descheduler, 9, intents=10, evictions=5, also=one_publisher),
    fault(competing_controllers, 33, intents=4, evictions=4, also=cooldowns_hold),
)
