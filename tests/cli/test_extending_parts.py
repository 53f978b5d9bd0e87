"""docs/extending.md: a check of doctor, an alert, a value of the chart, a column of the page, and a service.

Each is applied to a copy of the files that it needs, and the result is used.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.extending_page import CHANGE, ROOT, extend, sections

PARTS = ("A check of doctor", "An alert", "A value of the chart", "A column of the page")
SERVICE = "A service"
COPIED = (
    "libs/common/src", "libs/cli/src", "libs/testbed/src", "libs/lab/src", "libs/scheduling/src", "libs/cli/page/src",
    "services", "monitoring", "charts", "k8s", "dashboards", "docs/decisions",
)  # fmt: skip


def copied(folder: Path) -> Path:
    """A copy of the files that the sections change or read."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (folder / "tests" / "monitored").mkdir(parents=True)
    for name in ("pyproject.toml", ".importlinter"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def output_of(copy: Path, *arguments: str) -> str:
    """What a Python program prints that imports everything from the copy."""
    folders = [*sorted(copy.glob("libs/*/src")), *sorted(copy.glob("services/*/src")), copy, ROOT / "tests"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(map(str, folders))
    result = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=copy,
        env={**environment, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def used(copy: Path, what: str) -> Any:
    """What the function of this name in tests/cli/extended_parts.py returns."""
    return json.loads(output_of(copy, str(ROOT / "tests" / "cli" / "extended_parts.py"), what))


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copied(tmp_path_factory.mktemp("parts") / "copy")
    extend(copy, PARTS)
    return copy


@pytest.mark.parametrize("kind", [*PARTS, SERVICE])
def test_each_section_changes_a_file(kind: str) -> None:
    assert CHANGE.findall(sections()[kind])


def test_a_new_check_of_doctor_is_run(extended: Path) -> None:
    assert used(extended, "check") == {
        "debug": [["warning", "logging", "set logging.level: info"]],
        "info": [["ok", "logging", ""]],
    }


def test_a_new_alert_is_in_the_rules_the_cases_and_the_runbooks(extended: Path) -> None:
    output_of(extended, "-m", "monitoring")

    rules = yaml.safe_load((extended / "k8s" / "metrics" / "alerting-rules.yaml").read_text())
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert "EquipoiseShadowPolicyDiffers" in names
    assert "## EquipoiseShadowPolicyDiffers\n" in (extended / "docs" / "runbooks.md").read_text()
    assert (extended / "tests" / "monitored" / "alert-tests.yaml").read_text().count("EquipoiseShadowPolicyDiffers") > 1


def test_a_new_value_of_the_chart_is_in_the_values_the_schema_the_table_and_the_template(extended: Path) -> None:
    output_of(extended, "-m", "charts.generator")
    chart = extended / "charts" / "equipoise"

    assert yaml.safe_load((chart / "values.yaml").read_text())["setup"]["activeDeadlineSeconds"] == 600
    schema = json.loads((chart / "values.schema.json").read_text())
    assert "activeDeadlineSeconds" in schema["properties"]["setup"]["properties"]
    assert "| `setup.activeDeadlineSeconds` | `600` |" in (chart / "README.md").read_text()
    assert "activeDeadlineSeconds: {{ $.Values.setup.activeDeadlineSeconds | toJson }}" in "".join(
        path.read_text() for path in (chart / "templates").glob("*.yaml")
    )


def test_a_new_column_of_the_page_is_sent_at_the_number_that_the_page_reads(extended: Path) -> None:
    """The other columns keep theirs."""
    column = used(extended, "column")

    assert column["numbers"] == column["constants"]
    assert "ready" in column["numbers"]
    assert column["cells"] == ["yes", "no"]
    if node := shutil.which("node"):
        program = "import {describe} from './model.js'; console.log(describe(JSON.parse(process.argv[1])))"
        described = subprocess.run(
            [node, "--input-type=module", "-e", program, json.dumps(column["row"])],
            cwd=extended / "libs" / "cli" / "page" / "src",
            capture_output=True,
            text=True,
            check=True,
        )
        assert described.stdout.rstrip().endswith("not ready")


def test_a_new_service_runs_and_is_known_to_the_bus_and_the_configuration(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy")
    extend(copy, [SERVICE])

    assert used(copy, "service") == {
        "counted": 1.0,
        "defaults": {"health": "0.0.0.0:8088"},
        "publishes": ["equipoise.configuration.auditor.*", "equipoise.health.auditor.*"],
        "subscribes": True,
        "command": True,
    }
    assert "equipoise.auditor" in (copy / ".importlinter").read_text()
