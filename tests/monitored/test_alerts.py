"""The alerts: rules, their tests, and their runbooks."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from monitored.exported import exported
from monitored.promtool import needs_promtool, run_promtool
from monitored.queries import Selector, selectors
from monitoring.__main__ import ROOT, files
from monitoring.alerts import ALERTS, SERVICE_METRICS, Alert
from monitoring.cases import CASES
from monitoring.rules import RUNBOOKS, anchor, rule

from equipoise.agent.shell.evictor import Outcome as EvictionResult
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.metrics import LEDGER_STATES
from equipoise.binder.state.campaign import CampaignState
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus.errors import KINDS

RULES = ROOT / "k8s" / "metrics" / "alerting-rules.yaml"
RULE_TESTS = ROOT / "tests" / "monitored" / "alert-tests.yaml"

by_name = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


@pytest.mark.parametrize("path", files())
def test_the_committed_files_are_the_generated_ones(path: str) -> None:
    """`make monitoring` writes them."""
    assert files()[path] == (ROOT / path).read_text()


def test_the_object_of_the_operator_has_the_same_rules() -> None:
    manifest = yaml.safe_load((ROOT / "k8s" / "metrics" / "prometheus-rule-alerts.yaml").read_text())

    assert yaml.safe_load(RULES.read_text()) == manifest["spec"]
    assert (
        manifest["metadata"]["name"]
        != yaml.safe_load((ROOT / "k8s" / "metrics" / "prometheus-rule.yaml").read_text())["metadata"]["name"]
    )


def test_no_alert_wakes_anybody() -> None:
    """One that does needs a reason in `heals`: see the docstring of `monitoring/alerts.py`."""
    assert {alert.severity for alert in ALERTS} == {"warning", "info"}


@by_name
def test_every_alert_has_a_case_that_fires_and_one_that_is_silent(alert: Alert) -> None:
    cases = Counter(case.fires is not None for case in CASES if case.alert == alert.name)

    assert cases[True] >= 1
    assert cases[False] >= 1


def test_every_alert_is_made_to_fire_by_its_fault() -> None:
    """On what the services export: no alert is left out of the expectations of `test_faults*.py`."""
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_faults*.py"))

    assert {alert.name for alert in ALERTS} - set(re.findall(r'"(Equipoise\w+)"', tests)) == set()


def test_every_case_belongs_to_an_alert_and_names_are_unique() -> None:
    names = Counter(alert.name for alert in ALERTS)

    assert {case.alert for case in CASES} <= names.keys()
    assert max(names.values()) == 1


@by_name
def test_every_runbook_url_has_its_heading(alert: Alert) -> None:
    url = rule(alert)["annotations"]["runbook_url"]
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbooks.md").read_text(), flags=re.MULTILINE)

    assert url.removeprefix(f"{RUNBOOKS}#") in {heading.lower() for heading in headings}
    assert anchor(alert) in url


def test_every_link_of_the_runbooks_has_its_heading() -> None:
    links = re.findall(r"\]\((\w+\.md)#([\w-]+)\)", (ROOT / "docs" / "runbooks.md").read_text())
    assert links
    for page, target in links:
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}

        assert target in anchors, f"{page}#{target}"


@by_name
def test_a_summary_uses_only_labels_that_the_alert_has(alert: Alert) -> None:
    """promtool compares the texts for the cases; here that a case has each label."""
    used = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    for case in CASES:
        if case.alert == alert.name and case.fires is not None:
            assert used <= case.fires.keys()


def test_every_service_has_a_metric_of_its_own() -> None:
    assert SERVICE_METRICS.keys() == set(SERVICES)


async def test_every_metric_and_label_of_an_expression_is_exported() -> None:
    """As the services describe them when they run."""
    known = await exported()
    for alert in ALERTS:
        found = list(selectors(alert.expression))
        assert found, alert.name
        for selector in found:
            assert selector.metric in known, f"{alert.name}: {selector.metric}"
            labels = {label for label, _, _ in selector.matchers} - {"le"}
            assert labels <= set(known[selector.metric].labels), f"{alert.name}: {labels} of {selector.metric}"
    for service, metric in SERVICE_METRICS.items():
        assert known[metric].services == (service,), metric


def test_every_value_that_a_label_is_compared_with_exists() -> None:
    """A value that no service sets would make the alert silent for ever."""
    values = label_values()
    for alert in ALERTS:
        for selector in selectors(alert.expression):
            for label, operator, value in selector.matchers:
                assert matching(values, selector, label, operator, value), f"{alert.name}: {label}{operator}{value}"


def matching(
    values: Mapping[tuple[str, str], set[str]], selector: Selector, label: str, operator: str, value: str
) -> bool:
    existing = values[selector.metric, label]
    if operator == "!=":
        return value in existing
    alternatives = value.split("|") if operator == "=~" else [re.escape(value)]
    return all(any(re.fullmatch(each, name) for name in existing) for each in alternatives)


def label_values() -> Mapping[tuple[str, str], set[str]]:
    """The values that the code gives the labels."""
    sources = "\n".join(
        path.read_text() for folder in ("libs/common/src", "services") for path in (ROOT / folder).rglob("*.py")
    )
    names = re.findall(r"(?:set_problem|kind_of)\(\s*f?\"([^\"{]+)", sources)
    scorer = ROOT / "services" / "scorer" / "src" / "equipoise" / "scorer"
    prioritized = "\n".join((scorer / name).read_text() for name in ("service.py", "state/scoring_state.py"))
    connections = (scorer / "shell" / "connections.py").read_text()
    return {
        # Keys with a part of their own, such as the resource of a watch, end with a word here.
        ("equipoise_problem", "key"): {f"{name}x" if name.endswith(" ") else name for name in names}
        | set(re.findall(r'^PROBLEM = "(\w+)"', sources, flags=re.MULTILINE)),
        ("equipoise_bus_problems", "kind"): set(KINDS),
        ("equipoise_bus_errors_total", "kind"): set(re.findall(r"\.count\(\"(\w+)\"", sources)),
        ("equipoise_binder_ledger", "state"): set(LEDGER_STATES),
        ("equipoise_binder_campaign", "state"): set(get_args(CampaignState)),
        ("equipoise_binder_detached_pods", "late"): {"true", "false"},
        ("equipoise_binder_outcomes_total", "outcome"): {outcome.value for outcome in Outcome},
        ("equipoise_binder_limit_rejections_total", "limit"): set(BinderSettings().limits.table),
        ("equipoise_scorer_neutral_total", "reason"): set(re.findall(r"reason=\"(\w+)\"", prioritized)),
        ("equipoise_scorer_connections_dropped_total", "reason"): set(re.findall(r"\"(\w+)\"", connections)),
        ("equipoise_reclaimer_writes_total", "result"): set(re.findall(r"writes\.labels\(\"(\w+)\"", sources)),
        ("equipoise_reclaimer_nodes", "state"): {"current", "degraded", "disabled"},
        ("equipoise_reclaimer_amounts", "kind"): {"reclaimed", "offered", "requested"},
        ("equipoise_agent_evictions_total", "result"): set(get_args(EvictionResult)),
        ("equipoise_scorer_requests_total", "result"): {"ok"},
        ("equipoise_scorer_requests_total", "verb"): {"prioritize", "filter", "other"},
        ("equipoise_scorer_request_duration_seconds_bucket", "verb"): {"prioritize", "filter"},
    }


class TestPromtool:
    pytestmark = needs_promtool

    @pytest.mark.parametrize("name", ["alerting-rules.yaml", "recording-rules.yaml"])
    def test_the_rules_are_valid(self, name: str) -> None:
        result = run_promtool("check", "rules", ROOT / "k8s" / "metrics" / name)

        assert result.returncode == 0, result.stdout + result.stderr

    def test_every_case_gives_what_it_states(self) -> None:
        """With all labels and annotations, runbook_url included."""
        result = run_promtool("test", "rules", RULE_TESTS)

        assert result.returncode == 0, result.stdout + result.stderr

    def test_a_case_that_states_something_else_fails(self, tmp_path: Any) -> None:
        """Otherwise promtool would compare nothing."""
        document = yaml.safe_load(RULE_TESTS.read_text())
        document["rule_files"] = [str(RULES)]
        document["tests"] = document["tests"][:1]
        document["tests"][0]["alert_rule_test"][0]["exp_alerts"][0]["exp_annotations"]["runbook_url"] += "x"
        changed = tmp_path / "changed.yaml"
        changed.write_text(yaml.safe_dump(document))

        assert run_promtool("test", "rules", changed).returncode == 1
