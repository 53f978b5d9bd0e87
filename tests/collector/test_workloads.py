"""Pods folded by workload, and the day in slots."""

import pytest
from builders import GIB, NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.workloads import SLOTS, MeasuredPod, Profile, Workloads, fold, slot_of
from equipoise.contracts.messages import Resources
from equipoise.contracts.settings import LoadSettings

HOUR = 3_600.0
MIDNIGHT = NOW - NOW % 86_400


def a_pod(
    cpu: float | None = 1.0, memory: float | None = GIB, sampled_at: float = NOW, name: str = "web"
) -> MeasuredPod:
    return MeasuredPod(workload=a_workload(name), usage=Resources(cpu=cpu, memory=memory), sampled_at=sampled_at)


def test_usage_is_per_replica() -> None:
    """The mean of the pods that were measured, at the time of the oldest; unknown is not 0."""
    folded = fold([a_pod(1.0, None, NOW - 9), a_pod(3.0, None), a_pod(None, GIB), a_pod(5.0, name="other")])

    web = folded[a_workload()]
    assert (Resources(cpu=2.0, memory=GIB), 3, NOW - 9) == (web.usage, web.replicas, web.sampled_at)
    assert 5.0 == folded[a_workload("other")].usage.cpu


@given(st.lists(st.none() | st.floats(0, 1e6)))
def test_a_mean_lies_between_its_parts(values: list[float | None]) -> None:
    """And is unknown only when every part is."""
    known = [value for value in values if value is not None]
    folded = fold([a_pod(value) for value in values])
    mean = folded[a_workload()].usage.cpu if values else None

    assert (mean is None) == (not known)
    assert mean is None or min(known) * 0.999_999 <= mean <= max(known) * 1.000_001


@pytest.mark.parametrize(
    ("ended_at", "length", "expected"),
    [
        (MIDNIGHT + HOUR, HOUR, 0),
        (MIDNIGHT, HOUR, 23),
        (MIDNIGHT + 13 * HOUR, HOUR, 12),
        (16.0 * 25, 16.0, 0),
    ],
)
def test_the_slot_of_a_time(ended_at: float, length: float, expected: int) -> None:
    """The hour that ended, in UTC; shorter days count alike."""
    assert expected == slot_of(ended_at, length)


def test_days_are_smoothed() -> None:
    """The new day has the weight; the first one stands as it is, an unknown one changes nothing."""
    profile = Profile()
    for day, cpu in enumerate((1.0, 2.0, None)):
        profile.add(MIDNIGHT + (24 * day + 1) * HOUR, HOUR, Resources(cpu=cpu), 0.3)
    told = profile.told()

    assert 1.3 == pytest.approx(told["cpu"][0])
    assert [None] * 23 == told["cpu"][1:]
    assert "memory" not in told


def test_a_long_window_is_the_mean_of_its_slots() -> None:
    """Known once enough of its slots are; its time is the end of the newest."""
    profile = Profile()
    for hour in range(1, 20):
        profile.add(MIDNIGHT + hour * HOUR, HOUR, Resources(cpu=float(hour)), 0.3)
    now = MIDNIGHT + 19.5 * HOUR
    assert profile.window(86_400, HOUR, now, 0.8) is None
    profile.add(MIDNIGHT, HOUR, Resources(cpu=10.0), 0.3)
    usage = profile.window(86_400, HOUR, now, 0.8)

    assert usage is not None
    assert (MIDNIGHT + 19 * HOUR, 10.0) == (usage.sampled_at, usage.mean.cpu)
    assert profile.window(86_400, HOUR, now + 86_400, 0.8) is None


def test_a_slot_counts_once() -> None:
    """An answer that comes twice does not smooth the day twice."""
    workloads = Workloads(slot=HOUR, weight=0.3, coverage=0.8)
    for cpu in (1.0, 2.0):
        workloads.record_slot(MIDNIGHT, [a_pod(cpu)])
    workloads.record("5m", [a_pod()], NOW)
    (told,) = tell(workloads)

    assert 1.0 == told.profile["cpu"][SLOTS - 1]


def tell(workloads: Workloads, now: float = NOW):  # type: ignore[no-untyped-def]
    load = LoadSettings()
    lives = {window.name: load.life(window) for window in load.windows}
    return workloads.messages(load.windows, lives, now, epoch=1, sequence=1)


def test_a_workload_is_told_while_a_window_lives() -> None:
    """Values too old are left out, and with the last of them the workload."""
    workloads = Workloads(slot=HOUR, weight=0.3, coverage=0.8)
    workloads.record("5m", [a_pod(sampled_at=NOW - 5)], NOW)
    workloads.record("1h", [a_pod(2.0, sampled_at=NOW - 5), a_pod(4.0, sampled_at=NOW - 5)], NOW)
    (fresh,) = tell(workloads)
    (older,) = tell(workloads, NOW + 200)

    assert (1, {"5m", "1h"}) == (fresh.replicas, fresh.windows.keys())
    assert {"1h"} == older.windows.keys()
    assert [] == tell(workloads, NOW + 400)


def test_profiles_of_workloads_that_went_are_forgotten() -> None:
    """One that comes back begins a new day."""
    workloads = Workloads(slot=HOUR, weight=0.3, coverage=0.8)
    workloads.record_slot(MIDNIGHT, [a_pod()])
    workloads.record("5m", [a_pod()], NOW)
    workloads.forget([])
    (told,) = tell(workloads)

    assert {} == told.profile
