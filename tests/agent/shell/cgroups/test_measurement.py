"""Rates of the counters of cgroups."""

from pathlib import Path

import pytest
from agent.fake_cgroups import FakeCgroups

from equipoise.agent.shell.cgroups.cgroup_tree import CgroupTree, PodCgroup, PodGroups
from equipoise.agent.shell.cgroups.measurement import Meter, NodeMeasurement

POD = "kubepods/burstable/poda"


class Round:
    """A latency-sensitive pod that uses one core and waits for another one all the time; `read_at` is when its counters
    are read."""

    def __init__(self, root: Path) -> None:
        self.cgroups = FakeCgroups(root, 2)
        self.cgroups.make(POD)
        self.read_at = 0.0
        self.meter = Meter(
            CgroupTree(str(root)), self.cgroups, proc="/proc", system="/sys", monotonic=lambda: self.read_at
        )

    def measure(self, read_at: float, *, counted_until: float) -> NodeMeasurement:
        self.read_at = read_at
        microseconds = round(1e6 * counted_until)
        self.cgroups.put("kubepods", "cpu.stat", f"usage_usec {microseconds}")
        self.cgroups.put(POD, "cpu.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={microseconds}")
        return self.meter.measure(PodGroups("kubepods", None, {"a": PodCgroup("a", "burstable", POD)}))


def test_a_rate_is_over_the_time_between_two_readings(tmp_path: Path) -> None:
    """The second round reads its files 50 ms later than the first: with the times of the rounds, a pod waited for 105%
    of the time, and used 1.05 cores."""
    world = Round(tmp_path)
    world.measure(10.00, counted_until=10.00)
    measured = world.measure(11.05, counted_until=11.05)

    assert (pytest.approx(100.0), pytest.approx(1.0)) == (measured.pressure, measured.pods)


def test_nobody_waits_for_more_than_all_of_the_time(tmp_path: Path) -> None:
    """The process was interrupted between the counter and the clock, in the first round."""
    world = Round(tmp_path)
    world.measure(10.05, counted_until=10.00)

    assert 100.0 == world.measure(11.00, counted_until=11.00).pressure
