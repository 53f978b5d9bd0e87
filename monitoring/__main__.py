"""Writes all files: `python -m monitoring`, or `make monitoring`."""

import json
from collections.abc import Mapping
from pathlib import Path

from monitoring.cases import CASES
from monitoring.dashboards import DASHBOARDS
from monitoring.grafana import document, kustomization, name
from monitoring.rules import rule_file, rule_object, runbooks, test_file, to_yaml

ROOT = Path(__file__).parents[1]


def files() -> Mapping[str, str]:
    """Path in the repository to content."""
    return {
        "k8s/metrics/alerting-rules.yaml": to_yaml(rule_file()),
        "k8s/metrics/prometheus-rule-alerts.yaml": to_yaml(rule_object()),
        "tests/monitored/alert-tests.yaml": to_yaml(test_file(CASES, "../../k8s/metrics/alerting-rules.yaml")),
        "docs/runbooks.md": runbooks(),
        "dashboards/kustomization.yaml": to_yaml(kustomization()),
        **{
            f"dashboards/{name(each)}.json": json.dumps(document(each), indent=2, sort_keys=True) + "\n"
            for each in DASHBOARDS
        },
    }


def main() -> None:
    for path, content in files().items():
        (ROOT / path).write_text(content)
        print(path)


if __name__ == "__main__":
    main()
