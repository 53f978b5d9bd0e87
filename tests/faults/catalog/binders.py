"""Binders are killed, suspended, duplicated and paused."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import AlreadyQueued
from faults import cluster_setup
from faults.catalog.api_server import fail_some
from faults.catalog.fault import Extent, fault
from faults.fault_proxy import (
    BINDER,
    EVICTION,
    LEDGER,
    ProxiedRequest,
    around,
    delay,
    hold,
)
from faults.history import Span
from faults.rig import Program, Rig

ACK_WAIT = 3.0
"""Seconds after which an intent of a killed binder is delivered again; by default 60, too long for a test."""


async def killed_binders(rig: Rig, extent: Extent) -> None:
    """SIGKILL of one of two binders when its n-th request is sent or its response is returned; it is started again."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        await kill_at_a_request(rig, rig.generator.choice(binders))
    await rig.evictions(extent.evictions)


KILL_POINTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"method": "POST", "path": EVICTION},
    {"method": "PUT", "path": LEDGER},
)
"""Requests at which a binder is killed: any, and the most important ones."""


async def kill_at_a_request(rig: Rig, binder: Program, *, points: Any = KILL_POINTS, **own: Any) -> None:
    what = rig.generator.choice(points)

    killed = asyncio.Event()

    def kill() -> None:
        binder.send(signal.SIGKILL)
        killed.set()

    fault = around(before=kill) if rig.generator.random() < 0.5 else around(after=kill)
    after = rig.generator.randrange(12 if not what else 3)
    rig.proxy.rule(fault, token=rig.tokens[binder.name], after=after, times=1, **what)
    await rig.until(killed.is_set, f"{binder.name} sent enough requests to be killed")
    binder.kill()
    await binder.start(**own)


async def three_binders(rig: Rig, extent: Extent) -> None:
    """Three binders receive the same intents: the consumer of the queue is created again and again."""
    await rig.start("binder", 3, concurrency=6)
    rig.descheduler.max_pending = 12
    rig.proxy.rule(delay(0.15), method="POST", path=EVICTION, share=0.5)
    for _ in range(2 * extent.times):
        await rig.outcomes(5)
        await rig.recreate_consumer(ack_wait=1.0)
    await rig.evictions(extent.evictions)


async def redelivered(rig: Rig, extent: Extent) -> None:
    """Every intent that may still be in the stream is delivered once more after its outcome.

    The stream keeps an intent for its lifetime. One that is published again later gets the outcome expired, unless it
    was executed: only the ledger records that.
    """
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        rig.descheduler.max_pending = 0
        await rig.all_settled()
        for number, published in enumerate(list(rig.recorder.intents.values())):
            if published.at < rig.since or published.intent.expires_at < rig.clock.now() + rig.descheduler.lifetime / 2:
                continue
            subject = subjects.eviction_intent(published.intent.namespace, published.intent.pod)
            with suppress(AlreadyQueued):
                await rig.bus.publish(subject, published.intent, message_id=f"{rig.clock.now()}.{number}")
        await rig.queue_empty()
        rig.descheduler.max_pending = 6
    await rig.evictions(extent.evictions)


async def delayed(rig: Rig, extent: Extent) -> None:
    """Binders are suspended until their intents and those in the queue have expired; POSTs are delayed as long."""
    binders = await rig.start("binder", 2)
    rig.descheduler.lifetime = 3.0
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        for binder in binders:
            binder.send(signal.SIGSTOP)
        await rig.until(lambda: len(rig.recorder.pending()) >= 5, "intents are pending")
        waiting = rig.recorder.pending()
        over = max(rig.recorder.intents[intent].intent.expires_at for intent in waiting)
        await rig.until_time(over + 0.2)
        for binder in binders:
            binder.send(signal.SIGCONT)
        await rig.outcomes(5)
        rule = rig.proxy.rule(hold, method="POST", path=EVICTION, share=0.5)
        await rig.until(lambda rule=rule: rule.taken >= 2, "POSTs are delayed")
        await asyncio.sleep(rig.descheduler.lifetime + 0.5)
        rule.lift()
        await rig.outcomes(5)
    await rig.evictions(extent.evictions)


async def dry_run(rig: Rig, extent: Extent) -> None:
    """Two binders with dry runs are killed, and every fifth request fails."""
    begin = rig.clock.now()
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2, evict=False)
    fail_some(rig, 0.2)
    for _ in range(extent.times):
        # A dry run reserves its pod, so there are not many.
        await rig.outcomes_of(Outcome.DRY_RUN, 3)
        await kill_at_a_request(rig, rig.generator.choice(binders), points=KILL_POINTS[:1], evict=False)
    await rig.outcomes_of(Outcome.DRY_RUN, 3)
    rig.stop_programs()
    rig.recorder.dry_runs.append(Span(begin=begin, end=rig.clock.now()))
    # Pending intents are settled by a binder that may evict.
    await rig.recreate_consumer()
    await rig.start("binder", 1)
    await rig.evictions(1)


@asynccontextmanager
async def evictions_paused(rig: Rig) -> AsyncIterator[float]:
    """`equipoise pause`, and `resume` at the end; yields the time from which the pause must be in effect."""
    await pause(rig.kube, cluster_setup.OWN, "a fault is injected")
    begin = rig.clock.now()
    try:
        yield begin
    finally:
        rig.recorder.paused.append(Span(begin=begin, end=rig.clock.now()))
        await resume(rig.kube, cluster_setup.OWN, rig.clock)


async def paused(rig: Rig, extent: Extent) -> None:
    """`equipoise pause` and `resume` while every fifth request fails; then NATS is killed as well."""
    await rig.start("binder", 2)
    for number in range(extent.times):
        await rig.evictions(extent.evictions)
        rule = fail_some(rig, 0.2)
        async with evictions_paused(rig) as begin:
            if number % 2:
                await rig.restart_nats_empty()
            await rig.outcomes(5)
            await rig.until_time(begin + 6)
            await rig.outcomes(5)
        for each in rule:
            each.lift()
    await rig.evictions(extent.evictions)


async def slow_ledger(rig: Rig, extent: Extent) -> None:
    """The response to a write of the ledger that reserves an eviction is 8 s late; meanwhile evictions are paused."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        reserved = asyncio.Event()

        async def respond_late(proxied: ProxiedRequest, reserved: asyncio.Event = reserved) -> web.StreamResponse:
            response = await proxied.complete()
            ledger = json.loads(json.loads(proxied.body)["data"]["ledger"])
            if response.status == 200 and any("outcome" not in entry for entry in ledger["entries"]):
                reserved.set()
                await asyncio.sleep(8.0)
            return response

        rule = rig.proxy.rule(respond_late, method="PUT", path=LEDGER, agent=BINDER)
        await rig.until(reserved.is_set, "an eviction is reserved")
        async with evictions_paused(rig):
            rule.lift()
            await asyncio.sleep(10.0)  # until the responses have arrived
    await rig.evictions(extent.evictions)


FAULTS = (
    fault(killed_binders, 6, 7, intents=20, evictions=10),
    fault(three_binders, 10, 17, intents=20, evictions=10),
    fault(redelivered, 17, intents=10, evictions=6),
    fault(delayed, 18, intents=20, evictions=10),
    fault(dry_run, intents=20, evictions=1),
    fault(paused, intents=20, evictions=10),
    fault(slow_ledger, intents=15, evictions=8),
)
