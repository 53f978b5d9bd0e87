"""`equipoise scheduler` on the API server in memory: what it writes, and what it does when a write fails."""

from typing import Any

import msgspec
import pytest
from scheduler.live_schedulers import held_up, live_scheduler, pending
from structlog.testing import capture_logs

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Container, Pod, Volume
from equipoise.contracts.kubernetes.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from equipoise.runtime.kubernetes.client import CLAIMS, LEASES, NODES, PODS, STORAGE_CLASSES, VOLUMES
from equipoise.scheduler.shell import event_recorder
from equipoise.scheduler.shell.event_recorder import WRITERS
from equipoise.scheduler.shell.scheduling_loop import BINDINGS
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import SUCCESS, PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.faults import Call
from equipoise.testbed.memory.kube import MemoryKube


async def test_a_pod_is_bound_to_the_node_that_fits() -> None:
    async with live_scheduler() as live:
        live.add_node("small", cpu="1")
        live.add_node("large", cpu="8")
        live.add_pod("web", "4")
        await live.settle()

        assert "large" == live.node_of("web")
        assert ["Scheduled"] == live.reasons("web")
        assert "Successfully assigned default/web to large" == live.kube.events[-1].note
        assert "1.0" == live.metric(
            'scheduler_schedule_attempts_total{profile="equipoise-scheduler",result="scheduled"}'
        )
        assert "1.0" == live.metric("scheduler_pod_scheduling_attempts_count")


async def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    async with live_scheduler() as live:
        live.add_node()
        live.add_pod("theirs", scheduler="default-scheduler")
        live.add_pod("ours")
        await live.settle()

        assert ("", "node-1") == (live.node_of("theirs"), live.node_of("ours"))
        assert [] == live.reasons("theirs")


async def test_an_unschedulable_pod_says_why_and_runs_once_a_node_is_added() -> None:
    async with live_scheduler() as live:
        live.add_node("small", cpu="1")
        live.add_pod("web", "4")
        await live.settle()

        status, reason, message = live.condition("web")
        assert ("False", "Unschedulable") == (status, reason)
        assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert ["FailedScheduling"] == live.reasons("web")
        assert message == live.kube.events[-1].note
        await live.clock.advance(60)
        tried = 'scheduler_schedule_attempts_total{profile="equipoise-scheduler",result="unschedulable"}'
        assert "1.0" == live.metric(tried), "its own condition is no reason to try again"
        assert "1.0" == live.metric('scheduler_pending_pods{queue="unschedulable"}')

        live.add_node("large", cpu="8")
        await live.clock.advance(2)

        assert "large" == live.node_of("web")
        assert ["FailedScheduling", "Scheduled"] == live.reasons("web")
        assert "0.0" == live.metric('scheduler_pending_pods{queue="unschedulable"}')


async def test_an_assumed_pod_occupies_its_node_before_it_is_bound() -> None:
    """Two pods that fit on a node one at a time, while no binding is answered."""
    async with live_scheduler() as live:
        answered = held_up(live.kube, "bind")
        live.add_node("node-1", cpu="4")
        live.add_pod("first", "3")
        live.add_pod("second", "3")
        await live.settle()

        assert ["first"] == live.calls("bind")
        assert ["uid-first"] == list(live.scheduler.state.assumed)
        assert ["FailedScheduling"] == live.reasons("second")
        answered.set()
        await live.settle()
        assert {} == live.scheduler.state.assumed, "its change was reported"


async def test_a_pod_whose_binding_fails_is_forgotten_and_tried_again_after_backoff() -> None:
    async with live_scheduler() as live:
        live.kube.fail_next("bind", status=500, message="no quorum", name="web")
        live.add_node("node-1", cpu="4")
        live.add_pod("web", "3")
        await live.settle()

        assert {} == live.scheduler.state.assumed
        status, reason, message = live.condition("web")
        assert ("False", "SchedulerError") == (status, reason)
        assert "no quorum" in message
        live.add_pod("other", "3", priority=1)
        await live.settle()
        assert "node-1" == live.node_of("other"), "the room is free at once"

        live.kube.remove(PODS, "other", "default")
        await live.clock.advance(0.5)
        assert ["web", "other"] == live.calls("bind"), "backoff does not end early after an error"
        await live.clock.advance(1)
        assert "node-1" == live.node_of("web")
        assert "1.0" == live.metric('scheduler_schedule_attempts_total{profile="equipoise-scheduler",result="error"}')


async def test_a_binding_whose_response_is_lost_is_none_that_failed() -> None:
    async with live_scheduler() as live:
        live.kube.fail_next("bind", status=0, committed=True)
        live.add_node()
        live.add_pod("web")
        await live.clock.advance(30)

        assert "node-1" == live.node_of("web")
        assert ["Scheduled"] == live.reasons("web")
        assert ["web"] == live.calls("bind")


async def test_a_pod_that_is_deleted_while_it_is_bound_leaves_no_trace() -> None:
    async with live_scheduler() as live:

        async def delete(call: Call) -> None:
            if call.verb == "bind" and call.name == "gone":
                live.kube.remove(PODS, "gone", "default")

        live.kube.on_call = delete
        live.add_node("node-1", cpu="4")
        live.add_pod("gone", "4")
        await live.settle()
        live.add_pod("next", "4")
        await live.clock.advance(30)

        assert "node-1" == live.node_of("next")
        assert [] == live.reasons("gone")
        assert {} == live.scheduler.state.assumed


async def test_only_some_pods_are_bound_at_a_time() -> None:
    async with live_scheduler() as live:
        answered = held_up(live.kube, "bind")
        live.add_node("node-1", cpu="100")
        for number in range(BINDINGS + 4):
            live.add_pod(f"web-{number}", "1")
        await live.settle()
        assert BINDINGS == len(live.calls("bind"))

        answered.set()
        await live.settle()
        assert BINDINGS + 4 == len(live.calls("bind"))


async def test_no_binding_waits_for_an_event_and_events_are_written_before_the_end() -> None:
    async with live_scheduler() as live:
        answered = held_up(live.kube, "create", resource="events")
        live.add_node("node-1", cpu="100")
        for number in range(BINDINGS + 4):
            live.add_pod(f"web-{number}", "1")
        await live.settle()
        assert BINDINGS + 4 == len(live.calls("bind"))
        assert [] == live.kube.events

        live.stop.set()
        await live.settle()
        assert not live.running.done()
        answered.set()
        await live.settle()
        assert live.running.done()
        assert BINDINGS + 4 == len(live.kube.events)


async def test_events_that_are_too_many_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100
    monkeypatch.setattr(event_recorder, "MAX_WAITING", most)
    async with live_scheduler() as live:
        answered = held_up(live.kube, "create", resource="events")
        live.add_node("node-1", cpu="200", pods=200)
        count = most + 2 * WRITERS
        with capture_logs() as logs:
            for number in range(count):
                live.add_pod(f"web-{number}", "1")
            while len(live.calls("bind")) < count or live.scheduler.state.in_flight:
                await live.settle()
        assert WRITERS == sum(each["event"] == "event dropped" for each in logs)
        answered.set()
        while len(live.kube.events) < most + WRITERS:
            await live.settle()
        assert most + WRITERS == len(live.kube.events)


async def test_a_pod_that_ends_before_its_binding_is_reported_leaves_its_room() -> None:
    async with live_scheduler() as live:

        async def end(call: Call) -> None:
            if call.verb == "bind" and call.name == "short":
                pod = live.pod("short")
                spec = msgspec.structs.replace(pod.spec, node_name="node-1")
                ended = msgspec.structs.replace(pod.status, phase="Succeeded")
                live.kube.put(PODS, msgspec.structs.replace(pod, spec=spec, status=ended))

        live.kube.on_call = end
        live.add_node("node-1", cpu="4")
        live.add_pod("short", "4")
        await live.settle()
        live.add_pod("next", "4")
        await live.settle()

        assert "node-1" == live.node_of("next")


async def test_a_pod_that_another_program_binds_elsewhere_leaves_the_node_that_was_assumed() -> None:
    async with live_scheduler() as live:

        async def bind_elsewhere(call: Call) -> None:
            if call.verb == "bind" and call.name == "web":
                pod = live.pod("web")
                spec = msgspec.structs.replace(pod.spec, node_name="other")
                live.kube.put(PODS, msgspec.structs.replace(pod, spec=spec))

        live.kube.on_call = bind_elsewhere
        live.add_node("node-1", cpu="4")
        live.add_pod("web", "4")
        await live.settle()
        live.add_node("other", cpu="4")
        live.add_pod("next", "4")
        await live.settle()

        assert ("other", "node-1") == (live.node_of("web"), live.node_of("next"))


async def test_a_preemption_deletes_the_victims_and_then_the_pod_runs() -> None:
    async with live_scheduler() as live:
        live.kube.terminating_first = True
        live.add_node("node-1", cpu="4")
        live.add_pod("low", "3")
        await live.settle()
        live.add_pod("high", "3", priority=100)
        await live.settle()

        assert None is not live.pod("low").metadata.deletion_timestamp
        assert ("True", "PreemptionByScheduler") == live.condition("low", "DisruptionTarget")[:2]
        assert ["Scheduled", "Preempted"] == live.reasons("low")
        assert "node-1" == live.pod("high").status.nominated_node_name
        assert "Unschedulable" == live.condition("high")[1]
        await live.clock.advance(20)
        assert ["low"] == live.calls("delete"), "it waits for the victim, and preempts no other"

        live.kube.remove(PODS, "low", "default")
        await live.clock.advance(10)
        assert "node-1" == live.node_of("high")
        assert "1.0" == live.metric("scheduler_preemption_victims_sum")


async def test_a_victim_that_was_replaced_by_another_pod_of_its_name_stays() -> None:
    async with live_scheduler() as live:
        live.add_node("node-1", cpu="4")
        live.add_pod("low", "3")
        await live.settle()

        async def replace(call: Call) -> None:
            if call.verb == "delete":
                live.kube.remove(PODS, "low", "default")
                again = pending("low", "3", scheduler="nobody")
                live.kube.put(PODS, _with_uid(again, "another"))

        live.kube.on_call = replace
        live.add_pod("high", "3", priority=100)
        await live.clock.advance(10)

        assert "another" == live.pod("low").metadata.uid
        assert "node-1" == live.node_of("high")


async def test_a_preemption_that_fails_is_tried_again() -> None:
    async with live_scheduler() as live:
        live.add_node("node-1", cpu="4")
        live.add_pod("low", "3")
        await live.settle()
        live.kube.fail_next("delete", status=500)
        live.add_pod("high", "3", priority=100)
        await live.clock.advance(20)

        assert "node-1" == live.node_of("high")
        assert ["low", "low"] == live.calls("delete")


async def test_a_scheduler_that_starts_again_binds_only_what_is_not_bound() -> None:
    """The first one ends while a binding is under way, before it knows the response."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    async with live_scheduler(kube, clock) as live:
        held_up(kube, "bind", name="second")
        live.add_node()
        live.add_pod("first")
        live.add_pod("second")
        await live.settle()
        assert ("node-1", "") == (live.node_of("first"), live.node_of("second"))
    kube.on_call = None
    async with live_scheduler(kube, clock, identity="two") as live:
        await clock.advance(60)  # the Lease of the first one ends

        assert "node-1" == live.node_of("second")
        assert ["first", "second", "second"] == live.calls("bind")


async def test_at_the_end_bindings_are_completed_and_the_lease_is_released() -> None:
    async with live_scheduler() as live:
        answered = held_up(live.kube, "bind")
        live.add_node()
        live.add_pod("web")
        await live.settle()
        live.stop.set()
        live.add_pod("late")
        await live.settle()
        assert not live.running.done()
        answered.set()
        await live.settle()

        assert live.running.done()
        assert ("node-1", "") == (live.node_of("web"), live.node_of("late"))
        (lease,) = live.kube.stored(LEASES)
        assert "" == lease.spec.holder_identity


async def test_a_scheduler_that_loses_its_lease_binds_again_when_it_has_it_back() -> None:
    """What it was binding is forgotten: another replica may have bound other pods to that room."""
    async with live_scheduler() as live:
        held_up(live.kube, "bind")
        live.add_node()
        live.add_pod("web")
        await live.settle()
        assert ["uid-web"] == list(live.scheduler.state.assumed)
        live.kube.refuse("replace", status=500, resource="leases")
        await live.clock.advance(11)

        assert not live.health.leading
        assert ({}, 0) == (live.scheduler.state.assumed, live.scheduler.state.in_flight)
        live.kube.on_call = None
        live.kube.clear_faults()
        await live.clock.advance(30)
        assert live.health.leading
        assert "node-1" == live.node_of("web")


async def test_a_follower_schedules_nothing() -> None:
    async with live_scheduler() as first, live_scheduler(first.kube, first.clock, identity="two") as second:
        first.add_node()
        first.add_pod("web")
        await first.clock.advance(30)

        assert (True, False) == (first.health.leading, second.health.leading)
        assert second.health.report().ready
        assert ["web"] == first.calls("bind")


async def test_a_pod_whose_claim_waits_for_it_gets_a_volume_first() -> None:
    """The volume is reserved for the claim; the pod is bound when a controller has bound both.

    Meanwhile others are scheduled, however many wait for volumes.
    """
    async with live_scheduler() as live:
        waits = StorageClass(metadata=ObjectMeta(name="local"), volume_binding_mode="WaitForFirstConsumer")
        live.kube.put(STORAGE_CLASSES, waits)
        live.add_node("node-1", cpu="100")
        for number in range(BINDINGS):
            live.kube.put(VOLUMES, a_volume(f"disk-{number}"))
            live.kube.put(CLAIMS, a_claim(f"data-{number}"))
            source = ClaimSource(claim_name=f"data-{number}")
            live.add_pod(f"db-{number}", volumes=[Volume(name="data", persistent_volume_claim=source)])
        await live.settle()
        live.add_pod("web")
        await live.settle()

        claimed = {each.metadata.name: each.spec.claim_ref for each in live.kube.stored(VOLUMES)}
        names = {reference.name: disk for disk, reference in claimed.items() if reference is not None}
        assert {f"data-{number}" for number in range(BINDINGS)} == set(names)
        assert ("", "node-1") == (live.node_of("db-3"), live.node_of("web"))

        live.kube.put(CLAIMS, a_claim("data-3", volume=names["data-3"]))
        await live.settle()
        assert ("node-1", "") == (live.node_of("db-3"), live.node_of("db-4"))


def a_volume(name: str) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            storage_class_name="local", capacity={"storage": "1Gi"}, access_modes=["ReadWriteOnce"]
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )


def a_claim(name: str, *, volume: str = "") -> PersistentVolumeClaim:
    """Bound to the volume if there is one."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PersistentVolumeClaimSpec(
            storage_class_name="local",
            access_modes=["ReadWriteOnce"],
            resources=ResourceRequirements(requests={"storage": "1Gi"}),
            volume_name=volume,
        ),
    )


class Raises:
    """A plugin with a bug."""

    name = "Raises"

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Any) -> Any:
        raise ValueError("a bug")


class NotANumber:
    name = "NotANumber"

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Any) -> Any:
        return [float("nan")] * len(rows)


@pytest.mark.parametrize(("plugin", "why"), [(Raises, "ValueError: a bug"), (NotANumber, "nan is not a number")])
async def test_a_plugin_that_fails_is_named_and_the_pod_returns_to_the_queue(plugin: Any, why: str) -> None:
    async with live_scheduler(plugins={plugin.name: lambda args, handle: plugin()}) as live:
        live.add_node("node-1")
        live.add_node("node-2")
        with capture_logs() as logs:
            live.add_pod("web")
            await live.settle()
            await live.clock.advance(3)

        assert f"plugin {plugin.name} failed in score: {why}" == live.condition("web")[2]
        assert "SchedulerError" == live.condition("web")[1]
        failures = [each for each in logs if each["event"] == "plugin failed"]
        assert [plugin.name] * 3 == [each["plugin"] for each in failures], "tried at 0, 1 and 3 s"
        assert ["FailedScheduling"] == live.reasons("web"), "the same event is not repeated"


async def test_a_slow_plugin_is_named() -> None:
    """The time of all nodes of an attempt counts: here 0.6 s each."""
    clock = ManualClock()

    class Slow:
        name = "Slow"

        def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus:
            clock._elapsed += 0.6
            return SUCCESS

    async with live_scheduler(clock=clock, plugins={"Slow": lambda args, handle: Slow()}) as live:
        live.add_node("node-1")
        live.add_node("node-2")
        with capture_logs() as logs:
            live.add_pod("web")
            await live.settle()

    warnings = [each for each in logs if each["event"] == "slow plugin"]
    assert [("Slow", "filter", 1.2)] == [(e["plugin"], e["extension_point"], e["seconds"]) for e in warnings]


class Reserves:
    """Records what it was told."""

    name = "Reserves"

    def __init__(self) -> None:
        self.told: list[str] = []

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus:
        self.told.append(f"reserve {pod.name}")
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self.told.append(f"unreserve {pod.name}")

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus:
        self.told.append(f"pre_bind {pod.name}")
        return SUCCESS

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self.told.append(f"post_bind {pod.name}")


async def test_plugins_of_the_binding_cycle_are_called() -> None:
    plugin = Reserves()
    async with live_scheduler(plugins={plugin.name: lambda args, handle: plugin}) as live:
        live.kube.fail_next("bind")
        live.add_node()
        live.add_pod("web")
        await live.clock.advance(2)

    first, again = ["reserve web", "pre_bind web", "unreserve web"], ["reserve web", "pre_bind web", "post_bind web"]
    assert [*first, *again] == plugin.told


def _with_uid(pod: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


HUGE = ["1e308", "10E", "9223372036854775807", "9" * 5_000]
UNREADABLE = "1e" + "9" * 5_000


def asking(name: str, cpu: str, **spec: Any) -> Pod:
    pod = pending(name)
    container = Container(resources=ResourceRequirements(requests={"cpu": cpu}))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=[container], **spec))


@pytest.mark.parametrize("cpu", [*HUGE, UNREADABLE], ids=lambda text: text[:10])
async def test_a_request_that_no_machine_has_ends_nothing(cpu: str) -> None:
    """Waiting, and on a node. It is read as kube-scheduler reads it, or the pod is told why not."""
    async with live_scheduler() as live:
        live.add_node()
        live.add_node("node-2")
        live.kube.put(PODS, asking("bound", cpu, node_name="node-2"))
        live.kube.put(PODS, asking("waiting", cpu))
        live.add_pod("web")
        await live.settle()

        assert live.node_of("web")
        if cpu == UNREADABLE:
            assert live.node_of("web") == "node-1", "what is free on the other node is not known"
            assert ("", ["FailedScheduling"]) == (live.node_of("waiting"), live.reasons("waiting"))
            assert {"default/bound", "default/waiting"} == {name for _, name, _ in live.kube.unreadable}
            assert any("default/waiting" in problem for problem in live.health.problems)
        else:
            assert live.node_of("waiting")
        live.kube.remove(PODS, "bound", "default")
        live.kube.remove(PODS, "waiting", "default")
        await live.settle()
        assert [] == list(live.kube.unreadable)
        live.add_pod("next", "3")
        live.add_pod("last", "3")
        await live.settle()
        assert {"node-1", "node-2"} == {live.node_of("next"), live.node_of("last")}


def undecodable(name: str, **spec: str) -> bytes:
    document = msgspec.to_builtins(pending(name))
    document["spec"] |= spec
    document["status"]["startTime"] = "0000-01-01T00:00:00Z"
    return msgspec.json.encode(document)


async def test_a_pod_that_cannot_be_decoded_waits_until_it_can_and_is_told_why() -> None:
    """Also one that could be: what it was before is not scheduled."""
    async with live_scheduler() as live:
        live.kube.put_json(PODS, undecodable("web"))
        live.add_pod("other", "100")
        await live.settle()
        live.kube.put_json(PODS, undecodable("other"))
        live.add_node(cpu="200")
        await live.clock.advance(20)

        assert ["", ""] == [live.node_of("web"), live.node_of("other")]
        assert "the pod cannot be read: status.startTime" in live.kube.events[-1].note
        assert {"default/web", "default/other"} == {name for _, name, _ in live.kube.unreadable}
        live.add_pod("web")
        live.add_pod("other", "100")
        await live.settle()
        assert ["node-1", "node-1"] == [live.node_of("web"), live.node_of("other")]
        assert [] == list(live.kube.unreadable)


async def test_a_node_that_cannot_be_decoded_gets_no_pod() -> None:
    async with live_scheduler() as live:
        live.add_node()
        node = msgspec.to_builtins(live.kube.stored(NODES)[0])
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "0000"}]
        live.kube.put_json(NODES, msgspec.json.encode(node))
        live.add_pod("web")
        await live.settle()
        assert "" == live.node_of("web")
        live.add_node()
        await live.clock.advance(2)
        assert "node-1" == live.node_of("web")


async def test_a_pod_about_which_nothing_can_be_decided_ends_nothing() -> None:
    """It learns why, is tried again, and the others are scheduled."""
    async with live_scheduler() as live:
        decide = live.scheduler.state.cluster.decide

        def failing(pod: PodInfo, extenders: object = ()) -> object:
            if pod.name == "bad":
                raise OverflowError("cannot convert float infinity to integer")
            return decide(pod)

        live.scheduler.state.cluster.decide = failing  # type: ignore[method-assign,assignment]  # a fault in the library
        live.add_node()
        live.add_pod("bad")
        live.add_pod("web")
        await live.settle()

        assert ("node-1", "") == (live.node_of("web"), live.node_of("bad"))
        assert "nothing could be decided: OverflowError: cannot convert" in live.condition("bad")[2]
        live.scheduler.state.cluster.decide = decide  # type: ignore[method-assign]
        await live.clock.advance(20)
        assert "node-1" == live.node_of("bad")
