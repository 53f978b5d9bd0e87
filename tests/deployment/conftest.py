"""Programs for the tests of the chart."""

from pathlib import Path

import pytest
from deployment.helm import Helm
from programs import program

from equipoise.testbed.binaries.build import KUBECONFORM


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    return program(KUBECONFORM)


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program=helm_program, home=tmp_path_factory.mktemp("helm"))
