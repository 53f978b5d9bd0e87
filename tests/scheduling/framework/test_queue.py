"""The scheduling queue."""

from scheduling.pods import a_pod

from equipoise.scheduling.framework.events import ClusterEvent
from equipoise.scheduling.framework.queue import SchedulingQueue
from equipoise.scheduling.framework.status import SUCCESS, PluginStatus, unresolvable
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.plugins.priority_sort import PrioritySort
from equipoise.scheduling.plugins.scheduling_gates import SchedulingGates

NODE_ADDED = ClusterEvent(kind="Node", action="add")
POD_DELETED = ClusterEvent(kind="Pod", action="delete")


class OnlyNodes:
    """Refuses pods until a node changes."""

    name = "OnlyNodes"

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        return event.kind == "Node"


def a_queue() -> SchedulingQueue:
    gates = SchedulingGates()

    def hold(pod: PodInfo) -> PluginStatus:
        return unresolvable("held") if pod.labels.get("held") else gates.pre_enqueue(pod)

    return SchedulingQueue(PrioritySort().sort_key, hold, {"OnlyNodes": OnlyNodes()})


def popped(queue: SchedulingQueue, now: float) -> str | None:
    found = queue.pop(now)
    return None if found is None else found.pod.name


def refused(queue: SchedulingQueue, now: float, *plugins: str, failed: bool = False) -> None:
    """The next pod is tried, and finds no node."""
    found = queue.pop(now)
    assert found is not None
    queue.add_unschedulable(found, plugins, now, failed=failed)


def test_pods_of_higher_priority_are_first_and_then_older_ones() -> None:
    queue = a_queue()
    for name, priority, now in (("old", 0, 1.0), ("young", 0, 2.0), ("important", 10, 3.0)):
        assert queue.add(a_pod(name, priority=priority), now) is SUCCESS

    assert [popped(queue, 4.0) for _ in range(4)] == ["important", "old", "young", None]


def test_a_pod_that_is_held_back_is_tried_after_a_change_only() -> None:
    queue = a_queue()
    status = queue.add(a_pod("gated", labels={"held": "yes"}), 0.0)

    assert status.reasons == ("held",)
    assert queue.on_event(NODE_ADDED, 1.0) == 0
    assert popped(queue, 400.0) is None

    queue.update(a_pod("gated"), 401.0)
    assert popped(queue, 401.0) == "gated"


def test_a_refused_pod_waits_for_an_event_that_its_plugin_calls_helpful() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    refused(queue, 0.0, "OnlyNodes")

    assert queue.on_event(POD_DELETED, 5.0) == 0
    assert popped(queue, 5.0) is None
    assert queue.on_event(NODE_ADDED, 6.0) == 1
    assert popped(queue, 6.0) == "pod-1"


def test_a_plugin_without_hints_is_helped_by_every_event() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    refused(queue, 0.0, "OnlyNodes", "Another")

    assert queue.on_event(POD_DELETED, 5.0) == 1


def test_an_event_during_the_attempt_is_not_lost() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    attempt = queue.pop(0.0)
    assert attempt is not None
    queue.on_event(NODE_ADDED, 0.1)
    queue.add_unschedulable(attempt, ("OnlyNodes",), 0.2)

    assert queue.waiting()["backoff"] == 1


def test_backoff_doubles_with_each_attempt_up_to_ten_seconds() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    lengths = []
    now = 0.0
    for _ in range(6):
        refused(queue, now, failed=True)
        end = queue.next_at()
        assert end is not None
        lengths.append(end - now)
        now = end

    assert lengths == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_backoff_ends_early_when_nothing_else_is_to_do() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    refused(queue, 0.0, "OnlyNodes")
    queue.on_event(NODE_ADDED, 0.1)

    assert popped(queue, 0.1) == "pod-1"


def test_backoff_after_an_error_does_not_end_early() -> None:
    """An error that stays would be repeated without a pause."""
    queue = a_queue()
    queue.add(a_pod("failing"), 0.0)
    refused(queue, 0.0, failed=True)
    queue.add(a_pod("refused"), 0.1)
    refused(queue, 0.1, "OnlyNodes")
    queue.on_event(NODE_ADDED, 0.2)

    assert popped(queue, 0.2) == "refused"
    assert popped(queue, 0.3) is None
    assert popped(queue, 1.0) == "failing"


def test_without_any_event_a_pod_is_tried_again_after_five_minutes() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    refused(queue, 0.0, "OnlyNodes")

    assert queue.next_at() == 300.0
    assert popped(queue, 299.0) is None
    assert popped(queue, 300.0) == "pod-1"


def test_a_pod_that_was_deleted_during_its_attempt_does_not_return() -> None:
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    attempt = queue.pop(0.0)
    assert attempt is not None
    queue.remove(attempt.pod)
    queue.add_unschedulable(attempt, (), 1.0, failed=True)

    assert len(queue) == 0
    assert popped(queue, 100.0) is None


def test_a_pod_that_was_refused_is_behind_those_of_its_priority() -> None:
    """As kube-scheduler: a failed attempt renews the time by which PrioritySort orders pods."""
    queue = a_queue()
    queue.add(a_pod("refused"), 0.0)
    refused(queue, 1.0, "OnlyNodes")
    queue.add(a_pod("younger"), 0.5)
    queue.on_event(NODE_ADDED, 5.0)

    assert [popped(queue, 5.0) for _ in range(2)] == ["younger", "refused"]


def test_errors_and_refusals_have_backoffs_of_their_own() -> None:
    """Three refusals, an error: 1 s; another error: 2 s; a fourth refusal: 8 s."""
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    now, lengths = 0.0, []
    for failed in (False, False, False, True, True, False):
        refused(queue, now, "OnlyNodes", failed=failed)
        if not failed:
            queue.on_event(NODE_ADDED, now)
        end = queue.next_at()
        assert end is not None
        lengths.append(end - now)
        now = end

    assert lengths == [1.0, 2.0, 4.0, 1.0, 2.0, 8.0]


def test_of_pods_whose_backoff_ends_in_the_same_second_the_most_important_is_first() -> None:
    queue = a_queue()
    for name, priority, now in (("early", 0, 10.1), ("late", 5, 10.8), ("next-second", 9, 11.2)):
        queue.add(a_pod(name, priority=priority), now)
        refused(queue, now, "OnlyNodes")
    queue.on_event(NODE_ADDED, 11.3)

    # The backoff of the first two has ended with the second 11: they are active. That of the third ends with 12.
    assert [popped(queue, 11.3) for _ in range(3)] == ["late", "early", "next-second"]

    queue = a_queue()
    for name, priority, now in (("early", 0, 10.1), ("late", 5, 10.2)):
        queue.add(a_pod(name, priority=priority), now)
        refused(queue, now, "OnlyNodes")
    queue.on_event(NODE_ADDED, 10.3)

    assert [popped(queue, 10.4) for _ in range(2)] == ["late", "early"]


def test_a_pod_that_no_plugin_refused_is_tried_again_after_its_backoff() -> None:
    """There were no nodes, for example."""
    queue = a_queue()
    queue.add(a_pod(), 0.0)
    refused(queue, 0.0)

    assert popped(queue, 0.5) is None
    assert popped(queue, 1.0) == "pod-1"
