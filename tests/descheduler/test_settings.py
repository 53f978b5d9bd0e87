"""The descheduler's section of the configuration."""

from typing import Any

import msgspec
import pytest

from equipoise.contracts.configuration.duration import Duration
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import compress


def read(section: dict[str, Any]) -> DeschedulerSettings:
    return msgspec.convert(section, DeschedulerSettings, dec_hook=lambda kind, value: kind.parse(value))


def test_strategies_are_told_apart_by_name() -> None:
    """Each has its own settings beside its name."""
    section = {"strategies": [{"name": "low_node_load", "deviation": {"high": {"cpu": 5}}, "leastRelief": 2}]}

    assert read(section).strategies[0].deviation == Deviation(high=msgspec.convert({"cpu": 5}, type(Deviation().high)))
    assert read(section).strategies[0].least_relief == 2


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"strategies": []}, "strategies must name at least one"),
        ({"strategies": [{"name": "guessing"}]}, "Invalid value 'guessing'"),
        ({"strategies": [{"name": "low_node_load"}, {"name": "low_node_load"}]}, "must not name one twice"),
        ({"strategies": [{"name": "low_node_load", "deviaton": {}}]}, "unknown field `deviaton`"),
        ({"workloads": ["Deployment", "DaemonSet"]}, "'DaemonSet' cannot be watched"),
        ({"interval": "0s"}, "must be longer than 0s"),
        ({"consecutiveAbnormalities": 0}, ">= 1"),
        ({"leaderElection": {"retryPeriod": 20}}, "retryPeriod must be less than renewDeadline"),
    ],
)
def test_faults_are_named(section: dict[str, Any], fault: str) -> None:
    """What cannot be meant is refused in words that help."""
    with pytest.raises(msgspec.ValidationError) as caught:
        read(section)

    assert fault in str(caught.value)


def test_every_length_of_time_can_be_compressed() -> None:
    """The demo's day takes minutes; leases keep their seconds."""
    fast = compress(DeschedulerSettings(), 200.0)

    assert fast.interval == Duration(0.6)
    assert fast.cool_down.longest == Duration(432)
    assert fast.leader_election == DeschedulerSettings().leader_election
    assert fast.strategies == DeschedulerSettings().strategies
