"""Means of workloads, in the shortest window and in longer ones."""

import pytest
from builders import GIB, NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.workload_means import MeasuredPod, RecentMeans, ReplicaMean, replica_means
from equipoise.contracts.messages.resources import Resources

LENGTH = 300.0
HORIZON = 3_600.0


def a_pod(
    cpu: float | None = 1.0, memory: float | None = GIB, sampled_at: float = NOW, name: str = "web"
) -> MeasuredPod:
    return MeasuredPod(workload=a_workload(name), usage=Resources(cpu=cpu, memory=memory), sampled_at=sampled_at)


def test_usage_is_per_replica() -> None:
    """The mean of the measured pods, with the oldest sample time; unknown is not 0."""
    means_of = replica_means([a_pod(1.0, None, NOW - 9), a_pod(3.0, None), a_pod(None, GIB), a_pod(5.0, name="other")])

    web = means_of[a_workload()]
    assert (Resources(cpu=2.0, memory=GIB), 3, NOW - 9) == (web.usage, web.replicas, web.sampled_at)
    assert 5.0 == means_of[a_workload("other")].usage.cpu


@given(st.lists(st.none() | st.floats(0, 1e6)))
def test_a_mean_lies_between_its_parts(values: list[float | None]) -> None:
    """It is unknown only when every part is."""
    known = [value for value in values if value is not None]
    means_of = replica_means([a_pod(value) for value in values])
    mean = means_of[a_workload()].usage.cpu if values else None

    assert (mean is None) == (not known)
    assert mean is None or min(known) * 0.999_999 <= mean <= max(known) * 1.000_001


def recent_of(*published: tuple[float, float | None]) -> RecentMeans:
    """From (time, cores)."""
    recent = RecentMeans(length=LENGTH, horizon=HORIZON)
    for at, cpu in published:
        usage = Resources(cpu=cpu, memory=GIB)
        recent = recent.add(at, {a_workload(): ReplicaMean(usage=usage, replicas=1, sampled_at=at)})
    return recent


def cpu_of(recent: RecentMeans, length: float = 900.0, coverage: float = 0.8) -> float | None:
    mean = recent.means(length, coverage).get(a_workload())
    return None if mean is None else mean.cpu


def test_adjoining_windows_make_a_longer_one() -> None:
    """Three windows of five minutes make one of fifteen; earlier ones do not count."""
    assert 2.0 == cpu_of(recent_of((NOW - 900, 99.0), (NOW - 600, 1.0), (NOW - 300, 2.0), (NOW, 3.0)))


def test_a_window_counts_only_for_the_time_that_no_newer_one_covers() -> None:
    """The newest round overlaps the kept one before it."""
    recent = recent_of((NOW - 700, 1.0), (NOW - 400, 2.0), (NOW - 100, 4.0), (NOW, 8.0))

    assert cpu_of(recent) == pytest.approx((300 * 8.0 + 100 * 4.0 + 300 * 2.0 + 200 * 1.0) / 900)


def test_a_window_with_too_little_coverage_is_unknown() -> None:
    """After a start, and when rounds failed."""
    assert cpu_of(recent_of((NOW - 300, 1.0), (NOW, 1.0))) is None
    assert cpu_of(recent_of((NOW - 800, 1.0), (NOW, 1.0))) is None
    assert cpu_of(recent_of((NOW - 600, None), (NOW - 300, 1.0), (NOW, 1.0))) is None
    assert 1.0 == cpu_of(recent_of((NOW - 920, None), (NOW - 615, 1.0), (NOW - 310, 1.0), (NOW, 1.0)))


def test_each_resource_has_its_own_coverage() -> None:
    """Memory is known when cpu was not measured."""
    recent = recent_of((NOW - 600, 1.0), (NOW - 300, None), (NOW, 1.0))

    assert Resources(memory=GIB) == recent.means(900.0, 0.8)[a_workload()]


def test_a_workload_missing_in_the_newest_round_is_left_out() -> None:
    """It ended, or is unknown."""
    recent = recent_of((NOW - 600, 1.0), (NOW - 300, 1.0), (NOW, 1.0))

    assert {} == recent.add(NOW + 15, {}).means(900.0, 0.8)


def test_only_the_windows_within_the_horizon_are_kept() -> None:
    """However long the collector runs."""
    recent = recent_of(*((NOW + number * LENGTH, 1.0) for number in range(100)))

    assert HORIZON / LENGTH == len(recent.kept)


@given(
    gaps=st.lists(st.floats(10.0, 400.0), min_size=1, max_size=200),
    values=st.lists(st.floats(0.0, 64.0), min_size=200, max_size=200),
)
def test_a_longer_mean_lies_between_the_recent_means(gaps: list[float], values: list[float]) -> None:
    """For any spacing of rounds; the number of kept windows is bounded."""
    times = [NOW + sum(gaps[:number]) for number in range(len(gaps) + 1)]
    published = list(zip(times, values, strict=False))
    recent = recent_of(*published)
    mean = cpu_of(recent, coverage=0.1)
    lately = [cpu for at, cpu in published if at > times[-1] - 900.0 - LENGTH]

    assert mean is not None
    assert min(lately) * 0.999_999 <= mean <= max(lately) * 1.000_001
    assert len(recent.kept) <= HORIZON / LENGTH
