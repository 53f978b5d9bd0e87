"""The programs that build trees and images."""

import os
from pathlib import Path

import pytest

from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.real_nodes import steps


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create namespaces")
def test_variables_of_our_python_do_not_reach_the_python_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/elsewhere")
    steps.run("print", ["sh", "-c", "env > variables"], tmp_path, Progress())
    variables = (tmp_path / "variables").read_text().splitlines()
    assert [variable for variable in variables if variable.startswith("PYTHON")] == []
