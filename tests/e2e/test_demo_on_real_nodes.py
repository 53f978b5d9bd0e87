"""The demo on real nodes, as a user runs it (`make demo ARGS=--real`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from testbed.real_nodes.machines import left_over, machine_state

from equipoise.testbed.real_nodes.requirements import RealNodesError, check_machine

ROOT = Path(__file__).parents[2]
SECONDS = 2_700
"""The time for a first run beside other work, with an empty cache."""

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_a_pod_moves_to_its_target_on_real_nodes() -> None:
    """Takes about ten minutes: a new pod may move when its usage is known. Nothing remains on the machine."""
    try:
        check_machine()
    except RealNodesError as error:
        pytest.skip(str(error))
    before = machine_state()

    done = subprocess.run(
        [sys.executable, "-c", "from equipoise.cli.main import main; main()", "demo", "--real"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["node"] == "n1"
    assert result["on_target"], result
    assert result["evictions"] == 1, "the limit of the first hour"
    # Whether the loads fell is not tested: all nodes are one machine, and other work on it changes them.
    assert result["load_before"].keys() == result["load_after"].keys() == {"n1", "n2"}
    assert left_over(before) == {}
