"""What is published of workloads, and their 24-hour profiles."""

from collections.abc import Mapping

import pytest
from builders import GIB, NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.replica_means import MeasuredPod, RecentMeans, ReplicaMean, replica_means
from equipoise.collector.state.workloads import LearnedProfile, WorkloadStore, slot_of
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import MIN_SLOTS, SLOTS
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources

HOUR = 3_600.0
MIDNIGHT = NOW - NOW % 86_400


def some_means(cpu: float | None = 1.0, sampled_at: float = NOW) -> Mapping[Workload, ReplicaMean]:
    return {a_workload(): ReplicaMean(usage=Resources(cpu=cpu, memory=GIB), replicas=1, sampled_at=sampled_at)}


def a_store() -> WorkloadStore:
    return WorkloadStore(load=LoadSettings(), slot=HOUR, weight=0.3, recent_limit=HOUR)


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
    """The hour that ended, in UTC; shorter days have shorter slots."""
    assert expected == slot_of(ended_at, length)


def test_days_are_smoothed() -> None:
    """The new day has the weight. The first one is taken as it is, an unknown one changes nothing."""
    profile = LearnedProfile()
    for day, cpu in enumerate((1.0, 2.0, None)):
        profile.add(MIDNIGHT + (24 * day + 1) * HOUR, HOUR, Resources(cpu=cpu), 0.3)
    message = profile.by_resource()

    assert 1.3 == pytest.approx(message["cpu"][0])
    assert [None] * 23 == message["cpu"][1:]
    assert "memory" not in message


def test_errors_of_the_profile_are_known_once_enough_hours_were_measured_on_two_days() -> None:
    """Each hour is compared with what the profile had for it before. Memory was as forecast, CPU one core above."""
    profile, hours = LearnedProfile(), range(MIN_SLOTS)
    for hour in hours:
        profile.add(MIDNIGHT + (hour + 1) * HOUR, HOUR, Resources(cpu=1.0, memory=GIB), 0.3)
    assert profile.forecast_error == Resources()

    for hour in hours[:-1]:
        profile.add(MIDNIGHT + (25 + hour) * HOUR, HOUR, Resources(cpu=2.0, memory=GIB), 0.3)
    assert profile.forecast_error == Resources()

    profile.add(MIDNIGHT + (25 + hours[-1]) * HOUR, HOUR, Resources(cpu=2.0, memory=GIB), 0.3)
    assert profile.forecast_error == Resources(cpu=1.0, memory=0.0)


def test_an_hour_that_was_not_measured_has_no_error() -> None:
    """It is unknown, not 0: it does not lower the errors of the others."""
    profile = LearnedProfile()
    for day, cpu in enumerate((1.0, 3.0)):
        for hour in range(2 * MIN_SLOTS):
            measured = cpu if hour % 2 or not day else None
            profile.add(MIDNIGHT + (24 * day + hour + 1) * HOUR, HOUR, Resources(cpu=measured), 0.3)

    assert profile.forecast_error == Resources(cpu=2.0)


def test_the_number_of_pods_in_each_hour_is_smoothed_like_the_profile() -> None:
    """It is published while it differs between hours."""
    workloads = a_store()
    days = [{19: 20, 20: 10}, {19: 20, 20: 10}, {19: 10, 20: 10}]
    found = []
    for day, hours in enumerate(days):
        for hour, pods in hours.items():
            mean = ReplicaMean(usage=Resources(cpu=1.0), replicas=pods, sampled_at=NOW)
            workloads.record_slot(MIDNIGHT + (24 * day + hour + 1) * HOUR, {a_workload(): mean})
            workloads.record(workloads.with_means(some_means(), NOW))
            found += [message.replicas_by_hour[hour : hour + 1] for message in messages_of(workloads)]

    assert found == [[], [10.0], [20.0], [10.0], [17.0], [10.0]]


def test_a_long_window_is_the_mean_of_its_slots() -> None:
    """When enough of them are known; its time is the end of the newest."""
    profile = LearnedProfile()
    for hour in range(1, 20):
        profile.add(MIDNIGHT + hour * HOUR, HOUR, Resources(cpu=float(hour)), 0.3)
    now = MIDNIGHT + 19.5 * HOUR
    assert profile.window(86_400, HOUR, now, 0.8) is None
    profile.add(MIDNIGHT, HOUR, Resources(cpu=10.0), 0.3)
    usage = profile.window(86_400, HOUR, now, 0.8)

    assert usage is not None
    assert (MIDNIGHT + 19 * HOUR, 10.0) == (usage.sampled_at, usage.mean.cpu)
    assert profile.window(86_400, HOUR, now + 86_400, 0.8) is None


def test_each_resource_of_a_long_window_has_its_own_coverage() -> None:
    """One hour of cpu is no day of cpu."""
    profile = LearnedProfile()
    for hour in range(24):
        profile.add(MIDNIGHT + hour * HOUR, HOUR, Resources(cpu=8.0 if hour == 3 else None, memory=GIB), 0.3)
    usage = profile.window(86_400, HOUR, MIDNIGHT + 23.5 * HOUR, 0.8)

    assert usage is not None
    assert Resources(memory=GIB) == usage.mean


def test_a_window_of_more_slots_than_are_kept_is_unknown() -> None:
    """A day is no week."""
    profile = LearnedProfile()
    for hour in range(48):
        profile.add(MIDNIGHT + hour * HOUR, HOUR, Resources(cpu=1.0), 0.3)

    assert profile.window(7 * 86_400, HOUR, MIDNIGHT + 47.5 * HOUR, 0.8) is None


def test_a_slot_counts_once() -> None:
    """A repeated result does not smooth the slot twice."""
    workloads = a_store()
    for cpu in (1.0, 2.0):
        workloads.record_slot(MIDNIGHT, some_means(cpu))
    workloads.record(workloads.with_means(some_means(), NOW))
    (message,) = messages_of(workloads)

    assert 1.0 == message.profile["cpu"][SLOTS - 1]


def messages_of(workloads: WorkloadStore, now: float = NOW) -> list[WorkloadUtilization]:
    return workloads.messages(workloads.measured, now, epoch=1, sequence=1)


def test_a_workload_is_published_while_a_window_is_known() -> None:
    """Windows that are too old are left out."""
    workloads = a_store()
    for at in (NOW - 3_000.0 + 300.0 * number for number in range(11)):
        workloads.record(workloads.with_means(some_means(sampled_at=at - 5), at))
    (fresh,) = messages_of(workloads)
    (older,) = messages_of(workloads, NOW + 200)

    assert (1, {"5m", "15m", "1h"}) == (fresh.replicas, fresh.windows.keys())
    assert {"1h"} == older.windows.keys()
    assert [] == messages_of(workloads, NOW + 400)


def test_longer_windows_are_made_of_the_shortest_one() -> None:
    """Up to the limit; longer ones are made of the slots of the profile."""
    workloads = a_store()
    for hour in range(24):
        workloads.record_slot(NOW - NOW % HOUR - hour * HOUR, some_means(8.0))
    for number in range(13):
        workloads.record(workloads.with_means(some_means(float(number)), NOW - 3_600.0 + 300.0 * number))
    (message,) = messages_of(workloads)

    means = {name: usage.mean.cpu for name, usage in message.windows.items()}
    assert means == {"5m": 12.0, "15m": 11.0, "1h": 6.5, "1d": 8.0}


def a_day(cpu: float | None = 2.0) -> list[Resources]:
    return [Resources(cpu=cpu, memory=GIB)] * SLOTS


def test_measurements_take_precedence_over_a_restored_profile() -> None:
    """It only fills slots that were not measured; later measurements are smoothed into it."""
    profile = LearnedProfile()
    profile.add(MIDNIGHT + HOUR, HOUR, Resources(cpu=1.0), 0.3)
    profile.restore(a_day())
    profile.add(MIDNIGHT + 2 * HOUR, HOUR, Resources(cpu=1.0), 0.3)
    profile.restore(a_day(9.0))
    message = profile.by_resource()

    assert [1.0, pytest.approx(1.7), 2.0] == message["cpu"][:3]
    assert [2.0] * 21 == message["cpu"][3:]
    assert [GIB] * SLOTS == message["memory"]


def test_no_window_is_made_of_a_restored_profile() -> None:
    """It is no measurement."""
    profile = LearnedProfile()
    profile.restore(a_day())
    assert profile.window(86_400, HOUR, NOW, 0.8) is None
    assert profile.window(86_400, HOUR, NOW, 0.0) is None

    workloads = a_store()
    workloads.restore(a_workload(), a_day())
    workloads.record(workloads.with_means(some_means(), NOW))
    (message,) = messages_of(workloads)
    assert {"5m"} == message.windows.keys()
    assert [2.0] * SLOTS == message.profile["cpu"]


def test_profiles_of_other_workloads_are_deleted() -> None:
    """One that returns begins a new profile."""
    workloads = a_store()
    workloads.record_slot(MIDNIGHT, some_means(1.0))
    workloads.record(workloads.with_means(some_means(), NOW))
    workloads.retain([])
    (message,) = messages_of(workloads)

    assert {} == message.profile


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


def test_windows_of_the_future_are_dropped_when_the_clock_goes_back() -> None:
    """They would be parts of longer windows until that time."""
    assert recent_of((300.0, 2.0)) == recent_of((90_000.0, 1.0), (300.0, 2.0))


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
