"""The shipped rules are those that the profile reads."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from equipoise.collector.decisions.query import Ask, Resource, What
from equipoise.collector.sources.profiles.recording_rules import RECORDING_RULES, WINDOWS, rule_file, rule_object
from equipoise.contracts.configuration.settings import LoadSettings

FOLDER = Path(__file__).parents[2] / "k8s" / "metrics"


def recorded() -> set[str]:
    return {rule["record"] for group in rule_file()["groups"] for rule in group["rules"]}


def test_the_shipped_files_are_those_that_are_generated() -> None:
    """`python -m equipoise.collector.sources.profiles` writes them anew."""
    assert rule_file() == yaml.safe_load((FOLDER / "recording-rules.yaml").read_text())
    assert rule_object() == yaml.safe_load((FOLDER / "prometheus-rule.yaml").read_text())


def test_every_usual_window_has_rules() -> None:
    """Or a long one would be worked out whenever it is asked for."""
    assert {window.length for window in LoadSettings().windows} == {window.length for window in WINDOWS}


@pytest.mark.parametrize("length", [window.length for window in WINDOWS] + [600.0])
def test_what_is_asked_for_is_recorded(length: float) -> None:
    """No question names a rule that there is not."""
    for resource, what in [(resource, what) for resource in get_args(Resource) for what in WHATS]:
        usages = RECORDING_RULES.cpu if resource == "cpu" else RECORDING_RULES.memory["workingSet"]
        ask = Ask(subject="node", resource=resource, what=what, length=length, at=0.0, step=15.0)
        asked = set(re.findall(r"equipoise:[\w:]+", usages["node"].query(ask, {}) or ""))

        assert asked <= recorded()


WHATS: list[What] = [what for part in get_args(What) for what in (get_args(part) or (part,))]
