"""The latest message of each subject counts."""

from builders import NOW, a_node_utilization, a_placed_pod, a_placement

from equipoise.contracts.messages.health import DRY_RUN, HEARTBEAT_LIFETIME, HEARTBEAT_PERIOD, REAL, Heartbeat
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods


def test_older_messages_are_dropped() -> None:
    """A late message of a collector that was replaced does not overwrite the new one's."""
    messages = LatestMessages()
    messages.on_utilization(a_node_utilization(cpu=1.0, epoch=2, sequence=1), NOW)
    messages.on_utilization(a_node_utilization(cpu=9.0, epoch=1, sequence=99), NOW)

    assert messages.utilizations["node-a"].epoch == 2

    messages.prune(nodes={"node-b"}, before=NOW)
    assert not messages.utilizations


def test_placements_keep_only_pods_that_correct_a_load() -> None:
    """Pods that every window contains wholly are dropped to save memory. A later placement replaces an earlier one."""
    messages = LatestMessages()
    pods = [
        a_placed_pod("old", running_since=NOW - 900), a_placed_pod("recent", running_since=NOW - 90),
        a_placed_pod("waiting", running_since=None), a_placed_pod("leaving", running_since=NOW - 900, terminating=True),
    ]  # fmt: skip
    messages.on_placement(with_recent_pods(a_placement("node-a", pods=pods, epoch=2), NOW - 300), NOW)
    messages.on_placement(with_recent_pods(a_placement("node-a", epoch=1), NOW - 300), NOW)

    assert [pod.name for pod in messages.placements["node-a"].pods] == ["recent", "waiting"]

    messages.prune(nodes={"node-b"}, before=NOW)
    assert not messages.placements


def test_the_mode_of_binders_is_known_while_they_send_heartbeats() -> None:
    """By our own clock, also if two heartbeats in a row are lost. If they differ, one that really evicts decides."""
    messages = LatestMessages()

    def publish(binder: str, evictions: str, at: float) -> None:
        messages.on_heartbeat(
            Heartbeat(service="binder", id=binder, version="1", ready=True, evictions=evictions, at=0.0), at
        )

    assert messages.evictions(100.0) == ""
    publish("one", DRY_RUN, 100.0)
    publish("two", "paused: upgrade", 105.0)
    assert messages.evictions(106.0) == DRY_RUN
    publish("three", REAL, 110.0)
    assert messages.evictions(111.0) == REAL
    publish("three", "", 112.0)
    assert messages.evictions(110.0 + 3 * HEARTBEAT_PERIOD + 1) == REAL
    assert messages.evictions(110.0 + HEARTBEAT_LIFETIME + 1) == ""
