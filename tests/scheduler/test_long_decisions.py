"""Decisions that take long do not keep the scheduler from renewing its Lease."""

from threading import Event

from bus_worlds import eventually
from scheduler.live_schedulers import live_scheduler

from equipoise.runtime.kubernetes.client import LEASES
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import PreFiltered
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.testbed.memory.clock import ManualClock


class Slow:
    """A plugin: its first decision takes a second, the next one until it is released."""

    name = "Slow"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.decisions = 0
        self.released = Event()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        self.decisions += 1
        if self.decisions == 1:
            self._clock._elapsed += 1.0
        else:
            assert self.released.wait(30), "the event loop waits for this decision"
        return PreFiltered()


async def test_the_lease_is_renewed_during_a_long_decision() -> None:
    """Decisions from the second one on are made in a thread."""
    clock = ManualClock()
    slow = Slow(clock)
    async with live_scheduler(clock=clock, plugins={"Slow": lambda arguments, handle: slow}) as live:
        live.add_node("node-1")
        live.add_pod("first")
        await eventually(lambda: live.node_of("first") == "node-1")
        live.add_pod("second")
        await eventually(lambda: slow.decisions == 2)
        before = await live.kube.get(LEASES, "equipoise-scheduler", "kube-system")
        await clock.advance(9.0)
        after = await live.kube.get(LEASES, "equipoise-scheduler", "kube-system")
        slow.released.set()
        await eventually(lambda: live.node_of("second") == "node-1")

        assert after.spec.renew_time != before.spec.renew_time
        assert live.health.leading
