"""Permit plugins that let a pod wait: it holds its room until it is allowed, rejected, preempted or too late."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scheduler.live_schedulers import Live, live_scheduler

from equipoise.runtime.kubernetes.client import PODS
from equipoise.scheduler.shell.scheduling_loop import BINDINGS
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus, unschedulable
from equipoise.scheduling.framework.waiting_pods import LONGEST_WAIT, WaitingPod, WaitingPods
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import Factory

WAIT = PluginStatus(code=Code.WAIT)
SECONDS = 60.0


class Hold:
    """Lets pods with the label hold wait for `seconds`, and rejects those with the label refuse."""

    name = "Hold"

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[PluginStatus, float]:
        if "refuse" in pod.labels:
            return unschedulable("not today"), 0.0
        return (WAIT, self.seconds) if "hold" in pod.labels else (SUCCESS, 0.0)


class HoldLonger(Hold):
    name = "HoldLonger"


@asynccontextmanager
async def holding(seconds: float = SECONDS, longer: float = 0.0) -> AsyncIterator[tuple[Live, WaitingPods]]:
    """And the pods that wait, as plugins see them."""
    found: list[WaitingPods] = []

    def factory(make: Callable[[], Hold]) -> Factory:
        def build(arguments: object, handle: Handle) -> Hold:
            found.append(handle.waiting_pods)
            return make()

        return build

    plugins = {"Hold": factory(lambda: Hold(seconds))}
    if longer:
        plugins["HoldLonger"] = factory(lambda: HoldLonger(longer))
    async with live_scheduler(plugins=plugins) as live:
        live.add_node("node-1", cpu="4")
        yield live, found[0]


def hold(live: Live, name: str, cpu: str = "3", label: str = "hold", **fields: int) -> None:
    live.add_pod(name, cpu, labels={label: "true"}, **fields)


def waiting(pods: WaitingPods, name: str) -> WaitingPod:
    found = pods.get(f"uid-{name}")
    assert found is not None
    return found


async def test_a_pod_that_is_allowed_is_bound() -> None:
    async with holding(longer=2 * SECONDS) as (live, pods):
        hold(live, "web")
        await live.clock.advance(30)
        assert not live.node_of("web")
        assert [] == live.reasons("web")

        found = waiting(pods, "web")
        assert ("node-1", {"Hold": SECONDS, "HoldLonger": 2 * SECONDS}) == (found.node, dict(found.pending))
        found.allow("Hold")
        await live.clock.advance(SECONDS)
        assert not live.node_of("web"), "the other plugin has not allowed it yet"
        found.allow("HoldLonger")
        await live.settle()
        assert "node-1" == live.node_of("web")
        assert ["Scheduled"] == live.reasons("web")
        assert 0 == len(pods)


async def test_a_pod_that_waits_holds_its_room_and_delays_no_other() -> None:
    async with holding() as (live, pods):
        live.add_node("node-2", cpu=str(2 * BINDINGS), pods=2 * BINDINGS)
        for number in range(BINDINGS + 2):
            hold(live, f"held-{number}", "1")
        await live.settle()
        assert BINDINGS + 2 == len(pods)
        free = 4 + 2 * BINDINGS - (BINDINGS + 2)
        for number in range(free + 1):
            live.add_pod(f"other-{number}", "1")
        while len(live.calls("bind")) < free:
            await live.settle()
        await live.settle()
        assert free == len(live.calls("bind"))
        assert ["FailedScheduling"] == live.reasons(f"other-{free}")


async def test_a_rejected_pod_leaves_its_room_and_waits_for_an_event() -> None:
    """Its own room is no such event."""
    async with holding() as (live, pods):
        hold(live, "web")
        await live.settle()
        waiting(pods, "web").reject("Hold", "the group is incomplete")
        await live.clock.advance(5)
        message = "0/1 nodes are available: 1 the group is incomplete."
        assert ("False", "Unschedulable", message) == live.condition("web")
        assert "1.0" == live.metric('scheduler_pending_pods{queue="unschedulable"}')
        assert 0 == len(pods)

        live.add_pod("next", "3")
        await live.settle()
        assert "node-1" == live.node_of("next")


async def test_the_room_of_a_rejected_pod_is_an_event_for_others() -> None:
    async with holding() as (live, pods):
        hold(live, "web")
        await live.settle()
        live.add_pod("next", "3")
        await live.settle()
        assert ["FailedScheduling"] == live.reasons("next")

        waiting(pods, "web").reject("Hold", "the group is incomplete")
        await live.clock.advance(2)
        assert "node-1" == live.node_of("next")


async def test_a_pod_is_rejected_after_the_shortest_time() -> None:
    async with holding(seconds=90, longer=2 * LONGEST_WAIT) as (live, pods):
        hold(live, "web")
        await live.settle()
        assert LONGEST_WAIT == waiting(pods, "web").pending["HoldLonger"]
        await live.clock.advance(89)
        assert [] == live.reasons("web")
        await live.clock.advance(1)

        assert ["FailedScheduling"] == live.reasons("web")
        assert "1 rejected due to timeout after waiting 1m30s at plugin Hold." in live.condition("web")[2]
        assert "1.0" == live.metric(
            'scheduler_schedule_attempts_total{profile="equipoise-scheduler",result="unschedulable"}'
        )


async def test_a_pod_that_is_deleted_while_it_waits_leaves_its_room() -> None:
    async with holding() as (live, pods):
        hold(live, "web")
        await live.settle()
        live.kube.remove(PODS, "web", "default")
        live.add_pod("next", "4")
        await live.settle()

        assert "node-1" == live.node_of("next")
        assert [] == live.reasons("web")
        assert 0 == len(pods)


async def test_a_pod_that_waits_is_preempted_without_being_deleted() -> None:
    async with holding() as (live, _):
        hold(live, "low")
        await live.settle()
        live.add_pod("high", "3", priority=100)
        await live.clock.advance(20)

        assert "node-1" == live.node_of("high")
        assert [] == live.calls("delete")
        assert "Preempted" in live.reasons("low")
        assert ("False", "Unschedulable") == live.condition("low")[:2], "it was tried again"


async def test_pods_that_wait_do_not_delay_the_end() -> None:
    async with holding() as (live, pods):
        hold(live, "web")
        await live.settle()
        live.stop.set()
        await live.settle()

        assert live.running.done()
        assert ([], "") == (live.reasons("web"), live.node_of("web"))
        assert 0 == len(pods)


async def test_a_plugin_that_refuses_is_named_as_by_kube_scheduler() -> None:
    async with holding() as (live, _):
        hold(live, "web", label="refuse")
        await live.settle()

        assert ("False", "Unschedulable", "0/1 nodes are available: 1 not today.") == live.condition("web")


async def test_a_plugin_may_decide_in_a_thread() -> None:
    async with holding() as (live, pods):
        hold(live, "web")
        await live.settle()
        await asyncio.to_thread(waiting(pods, "web").allow, "Hold")
        await live.settle()

        assert "node-1" == live.node_of("web")
