"""Services are stopped in order, and started again."""

import asyncio
import signal

from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import pack
from faults.fakes import take_lease
from faults.fault_proxy import EVICTION, hold
from faults.history import History
from faults.rig import Program, Rig

GRACE = 25.0
"""Seconds from SIGTERM to the end of a process; Kubernetes kills it after 30."""


async def restarted(rig: Rig, extent: Extent) -> None:
    """SIGTERM to a binder whose POST gets no response yet; then each process of all services in turn is stopped with
    SIGTERM and started again."""
    rig.descheduler.epoch = None
    rig.collector.publishing = False
    await rig.purge_outcomes()
    await pack(rig)
    started = await asyncio.gather(
        rig.start("collector"), rig.start("scorer"), rig.start("binder", 2), rig.start("descheduler", 2)
    )
    programs = [program for service in started for program in service]
    try:
        await rig.evictions(2)
        for _ in range(extent.times):
            await _with_a_post_in_flight(rig, started[2][0])
            for program in programs:
                await program.terminate()
                await program.start()
            await rig.evictions(1)
    finally:
        rig.stop_programs()
        rig.collector.take_over()
        rig.collector.publishing = True
        rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
        # Pending intents are settled by a binder that receives the fake collector's messages.
        await rig.recreate_consumer()
        await rig.start("binder", 2)
    await rig.evictions(extent.evictions)


async def _with_a_post_in_flight(rig: Rig, binder: Program) -> None:
    await rig.propose_as_leader()
    rule = rig.proxy.rule(hold, method="POST", path=EVICTION, token=rig.tokens[binder.name], times=1)
    await rig.until(lambda: rule.taken > 0, f"{binder.name} evicts")
    rig.descheduler.epoch = None
    binder.send(signal.SIGTERM)
    await asyncio.sleep(0.5)
    rule.lift()
    await binder.terminate()
    await binder.start()


def stopped_in_time(history: History) -> list[str]:
    """Every process ends in order, within 25 s of SIGTERM."""
    return [
        f"{stop.program}: ended with code {stop.code} {stop.seconds:.1f} s after SIGTERM"
        for stop in history.stops
        if stop.code != 0 or stop.seconds > GRACE
    ]


FAULTS = (fault(restarted, 38, intents=10, evictions=6, also=stopped_in_time),)
