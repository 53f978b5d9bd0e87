"""How requests fit the usage of a day, what autoscalers do with them, and what is recommended elsewhere."""

import msgspec
import numpy as np
import pytest
from lab.resource_requests.test_proposals import BUSY, STEPS, with_days, with_gaps

from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.model.trace import Trace
from equipoise.lab.resource_requests.horizontal_scaling import scaling_change
from equipoise.lab.resource_requests.requests_fit import RequestsFit, requests_fit
from equipoise.lab.resource_requests.vertical_recommender import recommended_requests

HALF = (*(400.0,) * 48, *(800.0,) * 48)


def fit(trace: Trace, cpu_milli: int = 1_000, memory_mib: int = 2_000) -> RequestsFit:
    return requests_fit(trace, [ResourceRequests(cpu_milli=cpu_milli, memory_mib=memory_mib)])


def test_slack_is_the_share_of_the_requests_that_is_not_used() -> None:
    found = fit(with_days(HALF))
    assert (found.cpu_slack, found.memory_slack) == (0.4, 0.5)
    assert (found.cpu_milli, found.memory_mib) == (2_000, 4_000)


def test_slack_without_requests_is_unknown() -> None:
    found = fit(with_days(HALF), 0, 0)
    assert (found.cpu_slack, found.memory_slack) == (None, None)
    assert (found.cpu_pod_hours_above, found.memory_pod_hours_above) == (0.0, 0.0)


def test_gaps_count_neither_as_used_nor_as_idle() -> None:
    assert fit(with_gaps(with_days(HALF), range(48, 96))).cpu_slack == 0.6


def test_pod_hours_above_requests_and_limits_count_each_pod() -> None:
    """Two pods, for half a day; a single step of an hour is enough."""
    assert fit(with_days(HALF), cpu_milli=500).cpu_pod_hours_above == 24.0
    spike = (*(0.0,) * 95, 900.0)
    assert fit(with_days(spike), cpu_milli=500).cpu_pod_hours_above == 2.0
    above_limit = fit(with_days(HALF, memory=1_000.0, limit_memory_mib=999), memory_mib=1_000)
    assert (above_limit.memory_pod_hours_above, above_limit.memory_pod_hours_above_limit) == (0.0, 48.0)


def test_an_autoscaler_adds_pods_when_the_request_is_lowered_unless_its_target_changes_by_the_same_factor() -> None:
    present, proposed = (ResourceRequests(cpu_milli=milli, memory_mib=0) for milli in (1_000, 500))
    day = with_days((800.0,) * STEPS)
    change = scaling_change(day, 0, present, proposed, target=80)
    assert change is not None
    assert (change.before.highest, change.after.highest, change.target) == (2, 4, 160)
    same = scaling_change(day, 0, proposed, proposed, target=change.target)
    assert same is not None
    assert same.after.highest == change.before.highest


@pytest.mark.parametrize(("kind", "cpu"), [("DaemonSet", 1_000), ("Pod", 1_000), ("Deployment", 0)])
def test_what_no_autoscaler_scales_has_no_change(kind: str, cpu: int) -> None:
    requests = ResourceRequests(cpu_milli=cpu, memory_mib=0)
    assert scaling_change(with_days(HALF, kind=kind), 0, requests, requests, target=80) is None


def recommended(trace: Trace) -> tuple[float, float]:
    (found,) = recommended_requests(trace)
    return found.cpu_milli, found.memory_mib


def test_the_recommender_takes_the_90th_percentile_of_cpu_and_the_peak_of_memory_with_a_margin() -> None:
    """At most one bucket of 5 % above."""
    cpu, memory = recommended(with_days(BUSY, memory=1_000.0))
    assert 1_150 <= cpu <= 1_150 * 1.06
    assert 1_150 <= memory <= 1_150 * 1.06
    short = (*(1_000.0,) * 8, *(100.0,) * 88)
    assert 115 <= recommended(with_days(short))[0] <= 115 * 1.13


def test_the_recommender_forgets_half_of_a_day_each_day() -> None:
    """Ten days after the last busy one, a thousandth of the weight is left."""
    assert recommended(with_days(BUSY, *[(100.0,) * STEPS] * 10))[0] < 150


def test_the_recommender_has_a_minimum_and_knows_limits_and_gaps() -> None:
    assert recommended(with_days((0.0,) * STEPS, memory=0.0)) == (25, 250)
    assert recommended(with_days(BUSY, limit_cpu_milli=600))[0] == 600
    unknown = msgspec.structs.replace(with_days(BUSY), gaps=np.ones((2, 1, STEPS), dtype=np.bool_))
    assert recommended(unknown) == (4_000, 4_000)
