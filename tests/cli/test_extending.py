"""docs/extending.md is true: each of its examples is applied to a copy of the product, and the result runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from cli.extending_page import CHANGE, FILE, PAGE, ROOT, extend, sections

from equipoise.binder.decisions.limits import Limits
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.settings import SOURCES
from equipoise.descheduler.decisions.strategies import STRATEGIES
from equipoise.lab.formats import FORMATS
from equipoise.lab.scenarios import SCENARIOS
from equipoise.scorer.decisions.policies import SINGLE_POLICIES

KINDS = (
    "A scoring policy", "A descheduling strategy", "An eviction limit", "A profile of queries", "A metric source",
    "A message", "A command", "A configuration key",
)  # fmt: skip


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that imports the extended copy of the product."""
    copy = tmp_path_factory.mktemp("extended")
    folders = [folder.relative_to(ROOT) for folder in (*ROOT.glob("services/*/src"), *ROOT.glob("libs/*/src"))]
    for folder in folders:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    extend(copy, KINDS)
    path = os.pathsep.join(str(folder) for folder in (*(copy / each for each in folders), ROOT / "tests"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**inherited, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def extended(environment: dict[str, str]) -> dict[str, Any]:
    """What tests/cli/extended_product.py prints about the extended copy."""
    program = str(ROOT / "tests" / "cli" / "extended_product.py")
    result = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert result.returncode == 0, result.stderr
    values: dict[str, Any] = json.loads(result.stdout)
    assert values["copy"][0].startswith(environment["PYTHONPATH"].partition("/services/")[0])
    return values


@pytest.mark.parametrize(
    "name", [*SINGLE_POLICIES, "mix", *STRATEGIES, *Limits().table, *SOURCES, *PROFILES, *FORMATS, *SCENARIOS]
)
def test_every_registered_name_is_on_the_page(name: str) -> None:
    """A reader finds each policy, strategy, limit, source, profile, format and scenario."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("kind", KINDS)
def test_one_file_and_one_table_are_enough(kind: str) -> None:
    """A configuration key needs no file of its own."""
    text = sections()[kind]

    assert len(FILE.findall(text)) == (0 if kind == "A configuration key" else 1)
    assert len(CHANGE.findall(text)) == 1


def test_every_path_on_the_page_exists() -> None:
    """Except the files that the examples add, and names in angle brackets."""
    added = {path for path, _ in FILE.findall(PAGE)}
    named = set(re.findall(r"`((?:services|libs|tests|docs|k8s)/[\w./-]+)`", PAGE)) - added

    assert named
    assert [] == sorted(path for path in named if not (ROOT / path).exists())


def test_a_new_policy_scores_nodes(extended: dict[str, Any]) -> None:
    """It is accepted as `scorer.policy`; the less loaded node scores more, an unknown one 0."""
    assert [80.0, 40.0, 0.0] == pytest.approx(extended["policy"])


def test_a_new_strategy_plans_moves(extended: dict[str, Any]) -> None:
    """It is accepted in `descheduler.strategies`; pods leave the node with the label."""
    reason = "the node has the label retire"

    assert {
        "registered": True,
        "states": {"node-a": "hot", "node-b": "between"},
        "moves": [["node-a-0", "node-b", reason], ["node-a-1", "node-b", reason]],
    } == extended["strategy"]


def test_a_new_limit_refuses_evictions(extended: dict[str, Any]) -> None:
    """It is accepted in `binder.limits`, and the refusal names its key."""
    assert "evictions from node node-a in 10m: 3 of 3 allowed (limits.evictionsPerNode)" == extended["limit"]


def test_a_new_profile_returns_queries(extended: dict[str, Any]) -> None:
    """It is accepted as `collector.prometheus.profile`."""
    assert {
        "node": 'rate(agent_node_cpu_seconds_total{cluster="a"}[300000ms])',
        "pod": 'rate(agent_pod_cpu_seconds_total{cluster="a"}[300000ms])',
    } == extended["profile"]


def test_a_new_source_returns_samples(extended: dict[str, Any]) -> None:
    """It is accepted as `collector.source`, with its own section, and is opened by its name."""
    assert [["node-a", 2.5]] == extended["source"]


def test_a_new_message_is_documented_and_permitted(extended: dict[str, Any]) -> None:
    """`equipoise events` shows it with its example, and only its publisher may publish it."""
    assert {"page": True, "asyncapi": True, "publishers": ["binder"]} == extended["message"]


def test_a_new_command_runs(extended: dict[str, Any]) -> None:
    """It has a help text, is listed by `equipoise --help`, and prints its result."""
    values = extended["cli_command"]

    assert "Print the names of the services." in values["help"]
    assert "services" in values["program"]
    assert ["collector", "annotator", "scorer", "descheduler", "binder"] == values["output"].split()


def test_a_new_configuration_key_is_in_the_defaults_and_in_the_schema(extended: dict[str, Any]) -> None:
    """And a configuration may set it."""
    values = extended["configuration_key"]

    assert values["defaults"]
    assert values["schema"]
    assert {"perSecond": 10.0, "minRegret": 20.0} == values["value"]


def test_the_new_policy_strategy_limit_and_profile_are_tested_for_their_rules(extended: dict[str, Any]) -> None:
    """The tests of the rules include every entry of a table, and the examples pass them."""
    files = (
        "scorer/decisions/test_laws.py",
        "descheduler/decisions/strategies/test_laws.py",
        "binder/decisions/limits/test_laws.py",
        "collector/decisions/profiles/test_profiles.py",
    )

    assert {"code": 0, "files": list(files)} == extended["laws"]
