"""The descheduler's section of the configuration."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Placement, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import compress

ROOT = Path(__file__).parents[2]


def test_only_hot_nodes_are_relieved_by_default() -> None:
    """Levelling the day is chosen in the configuration."""
    assert DeschedulerSettings().chosen_strategies(None) == (LowNodeLoad(),)


@pytest.mark.parametrize(
    ("placement", "given", "points"),
    [
        (Placement(), None, 250),
        (Placement(hints=True), None, 250),
        (Placement(extender=False, hints=True), None, 180),
        (Placement(extender=False), None, 0),
        (Placement(), 0, 0),
        (Placement(extender=False), 500, 500),
    ],
)
def test_target_points_follow_from_how_scores_reach_kube_scheduler(
    placement: Placement, given: int | None, points: int
) -> None:
    """They were a number to be computed by hand. One that is set applies."""
    settings = DeschedulerSettings(target_points=given)
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    assert settings.evaluation(LoadSettings(), Thresholds(), rules, placement).target_points == points


def test_the_documented_settings_of_level_day_are_its_defaults() -> None:
    """Each with a comment. The page, README and glossary state that it is chosen and needs a measured day."""
    page = (ROOT / "docs" / "operate.md").read_text()
    [written] = re.findall(r"    - name: level_day\n((?:      # .*\n)+)", page)
    documented = yaml.safe_load("".join(re.sub("^      # ", "", line) for line in written.splitlines(keepends=True)))

    assert read({"strategies": [{"name": "level_day"} | documented]}).strategies == (LevelDay(),)
    assert documented.keys() == {
        field.encode_name
        for field in msgspec.structs.fields(LevelDay)
        if field.name not in ("windows", "node_selector")
    }
    for text in (page, *((ROOT / name).read_text() for name in ("README.md", "docs/glossary.md"))):
        assert "nobody has measured is no reason for an eviction" in " ".join(text.split())


def read(section: dict[str, Any]) -> DeschedulerSettings:
    return msgspec.convert(section, DeschedulerSettings, dec_hook=lambda kind, value: kind.parse(value))


def test_strategies_are_distinguished_by_their_name() -> None:
    """Each has settings of its own."""
    section = {"strategies": [{"name": "low_node_load", "deviation": {"high": {"cpu": 5}}, "minLoadReduction": 2}]}

    (strategy,) = read(section).chosen_strategies(None)
    assert isinstance(strategy, LowNodeLoad)
    assert strategy.deviation == Deviation(high=msgspec.convert({"cpu": 5}, type(Deviation().high)))
    assert strategy.min_load_reduction == 2


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
        ({"leaderElection": {"leaseDuration": 601}}, "<= 600"),
    ],
)
def test_invalid_settings_are_refused(section: dict[str, Any], fault: str) -> None:
    """With the reason."""
    with pytest.raises(msgspec.ValidationError) as caught:
        read(section)

    assert fault in str(caught.value)


def test_every_duration_can_be_compressed() -> None:
    """A day of the demo takes minutes. Leases are not compressed."""
    slow = DeschedulerSettings(strategies=(LowNodeLoad(),))
    fast = compress(slow, 200.0)

    assert fast.interval == Duration(0.6)
    assert fast.cooldown.max == Duration(432)
    assert fast.leader_election == DeschedulerSettings().leader_election
    assert fast.strategies == slow.strategies
