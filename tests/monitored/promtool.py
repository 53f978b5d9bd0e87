"""The program promtool: only these tests need it, so only they wait for its build."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from equipoise.testbed.binaries.build import PROMTOOL, BuildError, build_module, default_cache, installed_programs
from equipoise.testbed.binaries.toolchain import NoGoError, Progress

needs_promtool = [pytest.mark.cluster, pytest.mark.timeout(1_800)]
"""Its first build takes some minutes."""


@cache
def find_promtool() -> Path:
    if installed := installed_programs(PROMTOOL, os.environ):
        return installed["promtool"]
    try:
        with Progress() as progress:
            return build_module(PROMTOOL, cache=default_cache(), progress=progress) / "promtool"
    except (BuildError, NoGoError) as error:
        pytest.skip(f"promtool is not installed and cannot be built: {error}")


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_promtool(), *arguments], capture_output=True, text=True, timeout=120, check=False)
