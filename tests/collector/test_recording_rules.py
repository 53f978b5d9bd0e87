"""The shipped rules are those that the profile reads."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from equipoise.collector.decisions.profiles.recording_rules import RECORDING_RULES, WINDOWS, rule_file, rule_object
from equipoise.collector.decisions.query import Aggregate, MetricQuery, ResourceName
from equipoise.contracts.configuration.settings import LoadSettings

FOLDER = Path(__file__).parents[2] / "k8s" / "metrics"


def recorded() -> set[str]:
    return {rule["record"] for group in rule_file()["groups"] for rule in group["rules"]}


def test_the_shipped_files_are_those_that_are_generated() -> None:
    """`python -m equipoise.collector.decisions.profiles` writes them anew."""
    assert rule_file() == yaml.safe_load((FOLDER / "recording-rules.yaml").read_text())
    assert rule_object() == yaml.safe_load((FOLDER / "prometheus-rule.yaml").read_text())


def test_every_usual_window_has_rules() -> None:
    """Or a long one would be worked out whenever it is asked for."""
    assert {window.length for window in LoadSettings().windows} == {window.length for window in WINDOWS}


@pytest.mark.parametrize("length", [window.length for window in WINDOWS] + [600.0])
def test_what_is_asked_for_is_recorded(length: float) -> None:
    """No question names a rule that there is not."""
    for resource, aggregate in [(resource, aggregate) for resource in get_args(ResourceName) for aggregate in WHATS]:
        usages = RECORDING_RULES.cpu if resource == "cpu" else RECORDING_RULES.memory["workingSet"]
        query = MetricQuery(subject="node", resource=resource, aggregate=aggregate, length=length, at=0.0, step=15.0)
        queries = set(re.findall(r"equipoise:[\w:]+", usages["node"].promql(query, {}) or ""))

        assert queries <= recorded()


WHATS: list[Aggregate] = [aggregate for part in get_args(Aggregate) for aggregate in (get_args(part) or (part,))]
