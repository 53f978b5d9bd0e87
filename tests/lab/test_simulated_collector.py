"""What Prometheus and the collector would have message: windows, lag, gaps, profiles."""

import numpy as np
import pytest
from lab.traces import QUARTER, a_trace

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated_collector import SimulatedCollector, load_settings, workload_of

WEB = workload_of(a_trace().workloads[0])
ORIGIN = 1_767_225_600.0
DAY = 86_400.0


def a_collector(
    trace: Trace, *, missing: float = 0.0, statistics: bool = False
) -> tuple[SimulatedCollector, ClusterUsage]:
    """A pod of the first workload runs on the first node since long before the first day is over."""
    curves = UsageCurves(trace)
    world = ClusterUsage(trace, curves)
    world.begin(DAY)
    world.start(world.pod(0), 0, now=DAY)
    collector = SimulatedCollector(
        trace, world, curves, load_settings(QUARTER), tick=QUARTER, origin=ORIGIN,
        missing=missing, statistics=statistics, generator=np.random.default_rng(1),
    )  # fmt: skip
    collector.on_placed(0, a_placed("pod-0", running_since=ORIGIN))
    collector.begin(DAY)
    return collector, world


def a_placed(uid: str, *, running_since: float | None) -> PlacedPod:
    return PlacedPod(
        uid=uid, namespace="default", name=uid, workload=WEB, placed_at=ORIGIN, running_since=running_since
    )


def node(collector: SimulatedCollector, number: int, asked_at: float) -> NodeUtilization | None:
    messages = [message for message in collector.utilizations(asked_at) if isinstance(message, NodeUtilization)]
    return next((message for message in messages if message.node == f"node-{number}"), None)


def test_values_live_until_after_the_next_round() -> None:
    """A collector that asks each quarter of an hour must not look dead in between."""
    settings = load_settings(QUARTER)

    assert [window.name for window in LoadSettings().windows] == [window.name for window in settings.windows]
    assert settings.freshness.score > 2 * QUARTER


def test_a_window_shorter_than_a_round_has_a_sample_of_its_own() -> None:
    """Five minutes hold what was used in these five minutes, not in the whole quarter of an hour."""
    collector, world = a_collector(a_trace())
    collector.sample(DAY)
    collector.sample_early("5m", DAY + QUARTER - 300.0)
    world.start(world.pod(0), 0, now=DAY + QUARTER - 150.0)
    collector.sample(DAY + QUARTER)

    message = node(collector, 0, DAY + QUARTER + 20.0)

    assert message is not None
    assert pytest.approx(1.5) == message.windows["5m"].mean.cpu
    assert pytest.approx(1.0 + 150.0 / QUARTER) == message.windows["15m"].mean.cpu


def test_statistics_are_told_to_who_looks_at_them() -> None:
    """Quarters of 1 and 3 cores in turn have a deviation of one core over the hour; else nothing is worked out."""
    trace = a_trace(curves=((1_000.0, 3_000.0) * 48,))
    for statistics in (True, False):
        collector, world = a_collector(trace, statistics=statistics)
        for step in range(5):
            world.step(DAY + step * QUARTER)
            collector.sample(DAY + step * QUARTER)
        message = node(collector, 0, DAY + 4 * QUARTER + 20.0)

        assert message is not None
        hour = message.windows["1h"]
        assert pytest.approx(1.0) == hour.deviation.cpu if statistics else hour.deviation == Resources()
        assert pytest.approx(3.0) == hour.max.cpu if statistics else hour.max == Resources()


def test_every_window_ends_with_the_sample_and_holds_what_was_used() -> None:
    """A curve of 1 and 3 cores in turn: the last quarter of an hour alone, and the mean of an hour."""
    collector, world = a_collector(a_trace(curves=((1_000.0, 3_000.0) * 48,)))
    collector.sample(DAY)
    for step in range(1, 5):
        world.step(DAY + step * QUARTER)
        collector.sample(DAY + step * QUARTER)

    message = node(collector, 0, DAY + 4 * QUARTER + 20.0)

    assert message is not None
    assert pytest.approx(3.0) == message.windows["15m"].mean.cpu
    assert pytest.approx(2.0) == message.windows["1h"].mean.cpu
    assert pytest.approx(2.0) == message.windows["1d"].mean.cpu
    assert (ORIGIN + DAY + 4 * QUARTER, 20.0) == (message.sampled_at, message.queried_at - message.sampled_at)


def test_the_day_before_the_replay_counts() -> None:
    """What runs when a replay begins ran the day before, so no window is young."""
    collector, _ = a_collector(a_trace(curves=((2_000.0,) * 96,)))
    collector.sample(DAY)

    message = node(collector, 0, DAY + 20.0)

    assert message is not None
    assert pytest.approx(2.0) == message.windows["1d"].mean.cpu


def test_a_pod_that_ran_through_too_little_of_the_window_is_not_measured() -> None:
    """Its mean would be too low: it is unknown, never small."""
    collector, _ = a_collector(a_trace())
    collector.on_placed(0, a_placed("young", running_since=ORIGIN + DAY + QUARTER - 100.0))
    collector.sample(DAY + QUARTER)

    message = node(collector, 0, DAY + QUARTER + 20.0)

    assert message is not None
    assert ["pod-0"] == list(message.pods)


def test_missing_samples_leave_nodes_out_and_are_counted() -> None:
    """A node without a sample is not message of; the round's end says how many are fresh."""
    collector, _ = a_collector(a_trace(nodes=200), missing=0.5)
    collector.sample(DAY)

    messages = list(collector.utilizations(DAY + 20.0))

    end = messages[-1]
    assert isinstance(end, UtilizationCycle)
    assert 50 < end.fresh < 150
    assert (200, end.fresh) == (end.expected, len(messages) - 1)


def test_a_profile_has_the_hours_of_the_day_in_utc() -> None:
    """An hour's mean stands in the slot of that hour."""
    curve = tuple(1_000.0 * (step // 4 + 1) for step in range(96))
    collector, _ = a_collector(a_trace(curves=(curve,)))
    collector.sample(DAY)

    message = collector.workload(0, DAY + 20.0)

    assert message is not None
    assert pytest.approx([hour + 1.0 for hour in range(24)]) == message.profile["cpu"]


def test_a_workload_is_told_once_a_round() -> None:
    """The same sample again would change nothing."""
    collector, _ = a_collector(a_trace())
    collector.sample(DAY)

    assert collector.workload(0, DAY + 20.0) is not None
    assert collector.workload(0, DAY + 30.0) is None

    collector.sample(DAY + QUARTER)
    assert collector.workload(0, DAY + QUARTER + 20.0) is not None


def test_a_pod_that_left_is_told_as_gone_for_as_long_as_windows_hold_it() -> None:
    """Then it is forgotten."""
    collector, _ = a_collector(a_trace())
    collector.on_gone(0, "pod-0", DAY + 60.0)

    assert ["pod-0"] == [gone.uid for gone in collector.placement(0, DAY + 120.0).gone]
    assert [] == collector.placement(0, 3 * DAY).gone
