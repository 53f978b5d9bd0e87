"""docs/architecture.md and the README name every program."""

import re

import yaml
from deployment.base import ROOT

from equipoise.contracts.bus.subjects import OPTIONAL_SERVICES, SERVICES

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PROGRAMS = ARCHITECTURE.partition("## Programs\n")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| `([\w ]+)`[^|]* \| [^|]+ \| ([^|]+) \|", PROGRAMS, re.MULTILINE))
"""Whether a program is needed, by its name."""

WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}


def test_architecture_names_every_service_and_whether_it_is_needed() -> None:
    services = {path.name for path in (ROOT / "services").iterdir() if path.is_dir()}

    assert {name for name, needed in ROWS.items() if needed == "always"} == {*SERVICES, "equipoise"}
    assert services == {*SERVICES, *OPTIONAL_SERVICES, "agent", "scheduler"}
    assert services - {"scheduler"} <= ROWS.keys()
    assert "equipoise scheduler" in ROWS


def test_architecture_names_every_workload_of_the_manifests() -> None:
    documents = [
        document
        for path in sorted((ROOT / "k8s").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if isinstance(document, dict) and document.get("kind") in WORKLOADS and "metadata" in document
    ]
    workloads = {(document["kind"], document["metadata"]["name"]) for document in documents}

    assert set(re.findall(r"(Deployment|StatefulSet|DaemonSet|Job|CronJob)\s`([\w-]+)`", PROGRAMS)) == workloads


def test_the_readme_names_the_same_programs() -> None:
    introduction = (ROOT / "README.md").read_text().partition("\n## ")[0]

    assert [name for name in ROWS if f"`{name}`" not in introduction] == []
