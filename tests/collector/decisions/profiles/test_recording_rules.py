"""The shipped recording rules match the profile."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from equipoise.collector.decisions.profiles.recording_rules import RECORDING_RULES, WINDOWS, rule_file, rule_object
from equipoise.collector.decisions.query import Aggregate, MetricQuery, ResourceName
from equipoise.contracts.configuration.settings import LoadSettings

FOLDER = Path(__file__).parents[4] / "k8s" / "metrics"


def recorded() -> set[str]:
    return {rule["record"] for group in rule_file()["groups"] for rule in group["rules"]}


def test_the_shipped_files_are_up_to_date() -> None:
    """`python -m equipoise.collector.decisions.profiles` prints them."""
    assert rule_file() == yaml.safe_load((FOLDER / "recording-rules.yaml").read_text())
    assert rule_object() == yaml.safe_load((FOLDER / "prometheus-rule.yaml").read_text())


def test_every_default_window_has_rules() -> None:
    """Otherwise a long window would be computed for each query."""
    assert {window.length for window in LoadSettings().windows} == {window.length for window in WINDOWS}


@pytest.mark.parametrize("length", [window.length for window in WINDOWS] + [600.0])
def test_every_query_uses_existing_rules(length: float) -> None:
    """For each window with rules and one without."""
    for resource, aggregate in [(resource, aggregate) for resource in get_args(ResourceName) for aggregate in WHATS]:
        usages = RECORDING_RULES.cpu if resource == "cpu" else RECORDING_RULES.memory["workingSet"]
        query = MetricQuery(subject="node", resource=resource, aggregate=aggregate, length=length, at=0.0, step=15.0)
        queries = set(re.findall(r"equipoise:[\w:]+", usages["node"].promql(query, {}) or ""))

        assert queries <= recorded()


WHATS: list[Aggregate] = [aggregate for part in get_args(Aggregate) for aggregate in (get_args(part) or (part,))]
