"""The program promtool: only these tests need it, so only they wait for its build."""

import subprocess
from functools import cache
from pathlib import Path

import pytest
from programs import program

from equipoise.testbed.binaries.build import PROMTOOL

needs_promtool = [pytest.mark.cluster, pytest.mark.timeout(1_800)]
"""Its first build takes some minutes."""


@cache
def find_promtool() -> Path:
    return program(PROMTOOL)


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_promtool(), *arguments], capture_output=True, text=True, timeout=120, check=False)
