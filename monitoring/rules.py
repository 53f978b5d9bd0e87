"""The alerts as rules of Prometheus, as an object of its operator, as tests of promtool, and as pages for people."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.runtime.configuration.manifest_text import manifest_text
from monitoring.alerts import ALERTS, Alert, Severity
from monitoring.cases import EVALUATION_INTERVAL, INTERVAL, Case

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

RUNBOOKS = f"https://equipoise.dev/docs/v{_PROJECT['version']}/runbooks.html"
"""Where docs/runbooks.md of this version is published, as `make docs` names it: other versions have other alerts."""

WRITTEN_BY = "# Written by: make monitoring\n"

_SEVERITIES: Mapping[Severity, str] = {
    "critical": "wakes somebody",
    "warning": "for working hours",
    "info": "for dashboards, and beside other alerts",
}


def anchor(alert: Alert) -> str:
    """Of its heading in docs/runbooks.md."""
    return alert.name.lower()


def rule(alert: Alert) -> dict[str, Any]:
    """One entry of a rule group."""
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.meaning,
            "runbook_url": f"{RUNBOOKS}#{anchor(alert)}",
        },
    }


def rule_file() -> dict[str, Any]:
    return {"groups": [{"name": "equipoise-alerts", "rules": [rule(alert) for alert in ALERTS]}]}


def rule_object() -> dict[str, Any]:
    """With the label that kube-prometheus-stack selects."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "equipoise-alerts", "labels": {"release": "kube-prometheus-stack"}},
        "spec": rule_file(),
    }


def test_file(cases: Sequence[Case], rules: str) -> dict[str, Any]:
    """For `promtool test rules`. `rules`: path of the rule file from the test file."""
    return {
        "rule_files": [rules],
        "evaluation_interval": EVALUATION_INTERVAL,
        "tests": [_test(case) for case in cases],
    }


def _test(case: Case) -> dict[str, Any]:
    alert = next(alert for alert in ALERTS if alert.name == case.alert)
    document = rule(alert)
    expected = []
    if case.fires is not None:
        annotations = document["annotations"] | {"summary": _rendered(alert.summary, case)}
        expected = [{"exp_labels": case.fires | document["labels"], "exp_annotations": annotations}]
    return {
        "name": f"{alert.name} {'fires' if expected else 'is silent'}: {case.about}",
        "interval": INTERVAL,
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [{"eval_time": case.at, "alertname": alert.name, "exp_alerts": expected}],
    }


def _rendered(template: str, case: Case) -> str:
    """As Prometheus renders a summary."""
    labels = case.fires or {}
    text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels.get(found[1], ""), template)
    return re.sub(r"{{ \$value[^}]*}}", case.value, text)


def runbooks() -> str:
    """The page docs/runbooks.md."""
    parts = [_INTRODUCTION]
    for alert in ALERTS:
        parts.append(
            f"## {alert.name}\n\n"
            f"{alert.meaning}\n\n"
            f"- **Severity**: {alert.severity}, {_SEVERITIES[alert.severity]}; fires "
            f"{'at once' if alert.lasts == '0m' else f'after {alert.lasts}'}.\n"
            f"- **What to do**: {alert.action}\n"
            f"- **What heals by itself**: {alert.heals}\n\n"
            f"```text\n{alert.expression}\n```\n"
        )
    return "\n".join(parts)


_INTRODUCTION = """\
<!-- Written by: make monitoring -->
# Runbooks

One section for each alert of `k8s/metrics/alerting-rules.yaml`, which
[Alerts and dashboards](diagnose.md#alerts-and-dashboards) describes. `monitoring/alerts.py` is the source of both.

No alert is `critical`, so none wakes anybody. Whatever fails, pods are scheduled as without Equipoise, running pods
stay where they are, and the limits of evictions hold without any action: what could harm workloads is refused first,
and reported then. A `warning` does not end by itself and can wait for the morning. An `info` explains others. To stop
all evictions at any time: `equipoise pause`.
"""


def to_yaml(document: Mapping[str, Any]) -> str:
    return WRITTEN_BY + manifest_text(document, width=1_000)
