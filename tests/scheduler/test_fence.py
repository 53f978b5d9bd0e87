"""`equipoise scheduler` with its own account writes nothing until its admission policy is in effect."""

from scheduler.live_schedulers import live_scheduler

from equipoise.runtime.kubernetes.client import LEASES
from equipoise.scheduler.service import FENCE
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube


async def test_nothing_is_scheduled_without_the_policy() -> None:
    """The problem names it and its file. Pods run within seconds after it is applied."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.as_service_account = True
    async with live_scheduler(kube, clock) as live:
        live.add_node("node-1")
        live.add_pod("waits")
        await clock.advance(60)

        (problem,) = live.health.problems
        assert FENCE in problem
        assert "k8s/scheduler/equipoise-scheduler.yaml" in problem
        assert live.node_of("waits") == ""
        assert live.calls("set_pod_status") == []

        denied = f"leases is forbidden: ValidatingAdmissionPolicy '{FENCE}' with binding '{FENCE}' denied request"
        kube.fail_next("create", status=422, message=denied)
        await clock.advance(15)
        assert live.node_of("waits") == "node-1"
        assert live.health.problems == []
    assert [lease.metadata.name for lease in kube.stored(LEASES)] == ["equipoise-scheduler"]
