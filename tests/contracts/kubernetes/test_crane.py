"""crane-scheduler's annotations, as crane reads them."""

import re
from datetime import UTC, datetime

import msgspec
from builders import NOW, a_node_utilization, a_window
from hypothesis import example, given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.crane import HOT_VALUE, KEYS, crane_annotations, hot_value
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.resources import Resources

GIB = 2.0**30


def a_window_with_max(cpu: float, memory: float, ago: float) -> WindowUsage:
    return msgspec.structs.replace(a_window(sampled_at=NOW - ago), max=Resources(cpu=cpu, memory=memory))


def test_every_metric_of_cranes_policy_is_written() -> None:
    """Share with five decimals, a comma, the sample's time in UTC to the second; the node has 10 cores and 64 GiB."""
    windows = {
        "5m": a_window(cpu=6.30124, memory=16 * GIB, sampled_at=NOW + 0.9),
        "1h": a_window_with_max(7.0, 32 * GIB, 60),
        "1d": a_window_with_max(12.0, 48 * GIB, 600),
    }
    assert crane_annotations(a_node_utilization(windows=windows), 2, NOW) == {
        "cpu_usage_avg_5m": "0.63012,2027-01-15T08:00:00Z",
        "cpu_usage_max_avg_1h": "0.70000,2027-01-15T07:59:00Z",
        "cpu_usage_max_avg_1d": "1.20000,2027-01-15T07:50:00Z",
        "mem_usage_avg_5m": "0.25000,2027-01-15T08:00:00Z",
        "mem_usage_max_avg_1h": "0.50000,2027-01-15T07:59:00Z",
        "mem_usage_max_avg_1d": "0.75000,2027-01-15T07:50:00Z",
        "node_hot_value": "2,2027-01-15T08:00:00Z",
    }


def test_unknown_values_are_not_written() -> None:
    """crane writes 0 instead, and the node looks idle. A mean never replaces a maximum."""
    windows = {"5m": a_window(cpu=None), "1h": a_window()}
    assert crane_annotations(a_node_utilization(windows=windows), None, NOW).keys() == {"mem_usage_avg_5m"}


@example(cpu=0.0, at=1.999999761581421, hot=0)
@given(st.floats(0, 1e6), st.floats(0, 2e9), st.integers(0, 10_000))
def test_crane_can_parse_every_value(cpu: float, at: float, hot: int) -> None:
    """Before the comma a number for Go's ParseFloat, after it a time."""
    windows = {"5m": a_window(cpu=cpu, sampled_at=at)}
    for key, text in crane_annotations(a_node_utilization(windows=windows), hot, at).items():
        assert key in KEYS
        value, moment = text.split(",")
        assert re.fullmatch(r"\d+" if key == HOT_VALUE else r"\d+\.\d{5}", value)
        read = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        assert 0 <= at - read.timestamp() < 1


def test_ten_pods_within_a_minute_raise_the_hot_value_by_seven() -> None:
    """Two times five in five minutes, five times two in one minute. A pod placed five minutes ago does not count."""
    assert hot_value([NOW - 10] * 10, NOW) == 7
    assert hot_value([NOW - 300] * 5, NOW) == 0
    assert hot_value([NOW - 200] * 9, NOW) == 1
    assert hot_value([], NOW) == 0
