"""Runs the programs of this folder, each in a process of its own: it enters a network namespace for good."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from deployment.base import ROOT
from testbed.real_nodes.machines import left_over, machine_state

from equipoise.testbed.real_nodes.requirements import (
    REAL_NODES,
    MachineRequirements,
    RealNodesError,
    check_machine,
)

SECONDS = 3_600
"""The time for a first run beside other work, which builds the image."""


def result_of(
    program: str, *arguments: str, required: MachineRequirements = REAL_NODES, seconds: float = SECONDS
) -> dict[str, Any]:
    """The last line of a program, which leaves nothing on the machine. Skips the test where nodes cannot run."""
    try:
        check_machine(required)
    except RealNodesError as error:
        pytest.skip(str(error))
    before = machine_state()
    done = subprocess.run(
        [sys.executable, "-m", f"e2e.real_nodes.{program}", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert left_over(before) == {}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
