"""Services are stopped in order, and started again."""

import asyncio

from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import real_services
from faults.fault_proxy import EVICTION, hold
from faults.history import History
from faults.rig import Program, Rig

GRACE = 25.0
"""Seconds from SIGTERM to the end of a process; Kubernetes kills it after 30."""


async def restarted(rig: Rig, extent: Extent) -> None:
    """SIGTERM to a binder whose POST gets no response yet; then each process of all services in turn is stopped with
    SIGTERM and started again."""
    async with real_services(rig, {"binder": 2, "descheduler": 2}):
        await rig.evictions(2)
        for _ in range(extent.times):
            await _with_a_post_in_flight(rig, rig.programs["binder-0"])
            for program in list(rig.programs.values()):
                if program.runs:
                    await program.terminate()
                    await program.start()
            await rig.evictions_as_leader(1)  # the moves before may have left no node hot
    await rig.evictions(extent.evictions)


async def _with_a_post_in_flight(rig: Rig, binder: Program) -> None:
    await rig.propose_as_leader()
    rule = rig.proxy.rule(hold, method="POST", path=EVICTION, token=rig.tokens[binder.name], times=1)
    await rig.until(lambda: rule.taken > 0, f"{binder.name} evicts")
    rig.descheduler.epoch = None
    async with asyncio.TaskGroup() as ending:
        ending.create_task(binder.terminate())
        await asyncio.sleep(0.5)
        rule.lift()
    await binder.start()


def stopped_in_time(history: History) -> list[str]:
    """Every process ends in order, within 25 s of SIGTERM."""
    return [
        f"{stop.program}: ended with code {stop.code} {stop.seconds:.1f} s after SIGTERM"
        for stop in history.stops
        if stop.code != 0 or stop.seconds > GRACE
    ]


FAULTS = (fault(restarted, 38, intents=10, evictions=6, also=stopped_in_time),)
