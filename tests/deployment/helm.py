"""Runs helm on the chart."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from deployment.base import NAMESPACE, ROOT
from deployment.kustomize import Document

from equipoise.testbed.binaries.build import KUBERNETES

CHART = ROOT / "charts" / "equipoise"
RELEASE = "equipoise"
TIMEOUT = 100.0

ALL_ON = {
    "mode": "advise",
    "crane": {"enabled": True},
    "secondScheduler": {"enabled": True},
    "scheduler": {"enabled": True},
    "livePage": {"enabled": True},
    "hints": {"enabled": True, "admission": "webhook"},
    "reclaimer": {"enabled": True},
    "agent": {"enabled": True, "evictions": True},
    "certManager": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
"""Values with everything that is switched off by default."""


class HelmError(AssertionError):
    """What helm printed, when it refused."""


@dataclass(frozen=True)
class Helm:
    """A helm of one version, with files of its own in `home`."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """Standard output. Raises HelmError."""
        command: list[str | Path] = [self.program, *arguments]
        if values is not None:
            command += ["--values", "-"]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig or self.home / "none"),
            "GOGC": "off",  # a quarter of the CPU time: helm ends before its garbage matters
        }
        result = subprocess.run(
            command,
            input=yaml.safe_dump(values) if values is not None else None,
            stdin=subprocess.DEVNULL if values is None else None,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if result.returncode != 0:
            raise HelmError(f"helm {' '.join(map(str, arguments))}: {result.stderr}{result.stdout}")
        return result.stdout

    def text(
        self, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE, options: Sequence[str | Path] = ()
    ) -> str:
        """The objects that an installation would create, and those of `helm test`."""
        target = ("--namespace", namespace, "--kube-version", KUBERNETES)
        return self.run("template", RELEASE, CHART, *target, *options, values=values or {})

    def template(
        self, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE, options: Sequence[str | Path] = ()
    ) -> list[Document]:
        """Without those of `helm test`."""
        documents = documents_in(self.text(values, namespace=namespace, options=options))
        return [each for each in documents if "helm.sh/hook" not in _annotations(each)]


def documents_in(text: str) -> list[Document]:
    """By libyaml where it is there: in Python, parsing takes longer than rendering."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(text, Loader=loader) if each]


def _annotations(document: Document) -> Mapping[str, str]:
    found: Mapping[str, str] = document["metadata"].get("annotations") or {}
    return found


def nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} of ("a", "b")."""
    result = value
    for name in reversed(path):
        result = {name: result}
    assert isinstance(result, dict)
    return result


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Values of both; `second` takes precedence, lists are replaced."""
    result = dict(first)
    for name, value in second.items():
        both = isinstance(result.get(name), Mapping) and isinstance(value, Mapping)
        result[name] = merged(result[name], value) if both else value
    return result


SETUP = re.compile(r"equipoise-setup-[0-9a-f]{8}")
