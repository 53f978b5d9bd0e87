"""The simulated messages of the collector: windows, delay, gaps, profiles."""

import msgspec
import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated.collector import SimulatedCollector, load_settings, workload_of

WEB = workload_of(a_trace().workloads[0])
ORIGIN = 1_767_225_600.0
DAY = 86_400.0


def a_collector(
    trace: Trace, *, missing: float = 0.0, statistics: bool = False
) -> tuple[SimulatedCollector, ClusterUsage]:
    """A pod of the first workload has been running on the first node for a long time."""
    curves = UsageCurves(trace)
    usage = ClusterUsage(trace, curves, now=DAY)
    usage.start(usage.add_pod(0), 0, now=DAY)
    collector = SimulatedCollector(
        trace, usage, curves, load_settings(QUARTER), tick=QUARTER, origin=ORIGIN,
        missing=missing, statistics=statistics, generator=np.random.default_rng(1),
    )  # fmt: skip
    collector.on_placed(0, a_placed("pod-0", running_since=ORIGIN))
    collector.start(DAY)
    return collector, usage


def a_placed(uid: str, *, running_since: float | None) -> PlacedPod:
    return PlacedPod(
        uid=uid, namespace="default", name=uid, workload=WEB, placed_at=ORIGIN, running_since=running_since
    )


def node(collector: SimulatedCollector, number: int, queried_at: float) -> NodeUtilization | None:
    messages = [
        message for message in collector.utilization_messages(queried_at) if isinstance(message, NodeUtilization)
    ]
    return next((message for message in messages if message.node == f"node-{number}"), None)


def test_values_remain_fresh_until_after_the_next_round() -> None:
    """Even if the collector queries every 15 minutes."""
    settings = load_settings(QUARTER)

    assert [window.name for window in LoadSettings().windows] == [window.name for window in settings.windows]
    assert settings.freshness.score > 2 * QUARTER


def test_a_window_shorter_than_a_round_has_its_own_sample() -> None:
    """Five minutes of rounds of 15 minutes."""
    collector, usage = a_collector(a_trace())
    collector.sample(DAY)
    collector.sample_early("5m", DAY + QUARTER - 300.0)
    usage.start(usage.add_pod(0), 0, now=DAY + QUARTER - 150.0)
    collector.sample(DAY + QUARTER)

    message = node(collector, 0, DAY + QUARTER + 20.0)

    assert message is not None
    assert pytest.approx(1.5) == message.windows["5m"].mean.cpu
    assert pytest.approx(1.0 + 150.0 / QUARTER) == message.windows["15m"].mean.cpu


def test_statistics_are_computed_on_request() -> None:
    """15 minutes of 1 and 3 cores in turn have a deviation of one core over the hour."""
    trace = a_trace(curves=((1_000.0, 3_000.0) * 48,))
    for statistics in (True, False):
        collector, usage = a_collector(trace, statistics=statistics)
        for step in range(5):
            usage.step(DAY + step * QUARTER)
            collector.sample(DAY + step * QUARTER)
        message = node(collector, 0, DAY + 4 * QUARTER + 20.0)

        assert message is not None
        hour = message.windows["1h"]
        assert pytest.approx(1.0) == hour.deviation.cpu if statistics else hour.deviation == Resources()
        assert pytest.approx(3.0) == hour.max.cpu if statistics else hour.max == Resources()


def test_windows_contain_the_mean_usage_before_the_sample() -> None:
    """A curve of 1 and 3 cores in turn: the last 15 minutes, and the mean of an hour."""
    collector, usage = a_collector(a_trace(curves=((1_000.0, 3_000.0) * 48,)))
    collector.sample(DAY)
    for step in range(1, 5):
        usage.step(DAY + step * QUARTER)
        collector.sample(DAY + step * QUARTER)

    message = node(collector, 0, DAY + 4 * QUARTER + 20.0)

    assert message is not None
    assert pytest.approx(3.0) == message.windows["15m"].mean.cpu
    assert pytest.approx(2.0) == message.windows["1h"].mean.cpu
    assert pytest.approx(2.0) == message.windows["1d"].mean.cpu
    assert (ORIGIN + DAY + 4 * QUARTER, 20.0) == (message.sampled_at, message.queried_at - message.sampled_at)


def test_windows_include_the_day_before_the_replay() -> None:
    """Pods that run at the start also ran the day before."""
    collector, _ = a_collector(a_trace(curves=((2_000.0,) * 96,)))
    collector.sample(DAY)

    message = node(collector, 0, DAY + 20.0)

    assert message is not None
    assert pytest.approx(2.0) == message.windows["1d"].mean.cpu


def test_a_pod_that_ran_in_a_small_part_of_the_window_is_not_measured() -> None:
    """Its mean would be too low."""
    collector, _ = a_collector(a_trace())
    collector.on_placed(0, a_placed("new", running_since=ORIGIN + DAY + QUARTER - 100.0))
    collector.sample(DAY + QUARTER)

    message = node(collector, 0, DAY + QUARTER + 20.0)

    assert message is not None
    assert ["pod-0"] == list(message.pods)


def test_nodes_without_a_sample_have_no_message() -> None:
    """The cycle message contains the number of fresh nodes."""
    collector, _ = a_collector(a_trace(nodes=200), missing=0.5)
    collector.sample(DAY)

    messages = list(collector.utilization_messages(DAY + 20.0))

    cycle = messages[-1]
    assert isinstance(cycle, UtilizationCycle)
    assert 50 < cycle.fresh < 150
    assert (200, cycle.fresh) == (cycle.expected, len(messages) - 1)


def test_a_profile_has_a_slot_for_each_hour_in_utc() -> None:
    """With the mean of that hour."""
    curve = tuple(1_000.0 * (step // 4 + 1) for step in range(96))
    collector, _ = a_collector(a_trace(curves=(curve,)))
    collector.sample(DAY)

    message = collector.workload(0, DAY + 20.0)

    assert message is not None
    assert pytest.approx([hour + 1.0 for hour in range(24)]) == message.profile["cpu"]


def test_a_workload_is_published_once_per_round() -> None:
    collector, _ = a_collector(a_trace())
    collector.sample(DAY)

    assert collector.workload(0, DAY + 20.0) is not None
    assert collector.workload(0, DAY + 30.0) is None

    collector.sample(DAY + QUARTER)
    assert collector.workload(0, DAY + QUARTER + 20.0) is not None


def test_a_node_is_published_with_its_zone() -> None:
    """The descheduler checks topology spread constraints with it. A node without a zone does not have the label."""
    trace = a_trace()
    first = msgspec.structs.replace(trace.nodes[0], zone="a")
    collector, _ = a_collector(msgspec.structs.replace(trace, nodes=(first, *trace.nodes[1:])))

    host = "kubernetes.io/hostname"
    assert {host: "node-0", "topology.kubernetes.io/zone": "a"} == collector.placement(0, DAY).labels
    assert {host: "node-1"} == collector.placement(1, DAY).labels


def test_a_deleted_pod_is_published_as_gone_while_windows_include_it() -> None:
    collector, _ = a_collector(a_trace())
    collector.on_gone(0, "pod-0", DAY + 60.0)

    assert ["pod-0"] == [gone.uid for gone in collector.placement(0, DAY + 120.0).gone]
    assert [] == collector.placement(0, 3 * DAY).gone
