"""The CustomResourceDefinitions of the operators whose objects the chart may create, from their Go modules."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from deployment.kustomize import Document, read_documents

from equipoise.testbed.binaries.build import default_cache
from equipoise.testbed.binaries.toolchain import NoGoError, Progress, find_go, go_environment


@dataclass(frozen=True)
class Operator:
    """A Go module with the definitions, and its hash as in a go.sum."""

    module: str
    hash: str
    definitions: str
    kinds: tuple[str, ...]


OPERATORS = (
    Operator(
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml",
        ("servicemonitors", "prometheusrules"),
    ),
    Operator(
        "github.com/cert-manager/cert-manager@v1.21.2",
        "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        "deploy/crds/cert-manager.io_{}.yaml",
        ("certificates", "issuers"),
    ),
)


def custom_resource_definitions(folder: Path) -> list[Document]:
    """Skips the test where the modules cannot be fetched. `folder`: any that is in no Go module."""
    return [
        document
        for operator in OPERATORS
        for kind in operator.kinds
        for document in read_documents(_fetched(operator, folder) / operator.definitions.format(kind))
    ]


def _fetched(operator: Operator, folder: Path) -> Path:
    """The files of the module, in Go's own cache."""
    try:
        with Progress() as progress:
            go = find_go(default_cache(), progress)
    except NoGoError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [go, "mod", "download", "-json", operator.module],
        cwd=folder,
        env={**os.environ, **go_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"{operator.module} cannot be fetched: {done.stdout}{done.stderr}")
    module = json.loads(done.stdout)
    assert module["Sum"] == operator.hash, f"{operator.module} is not what its hash names"
    return Path(module["Dir"])
