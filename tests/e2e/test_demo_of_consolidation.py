"""The demo that empties Karpenter's nodes, as a user runs it (`make demo ARGS=--consolidate`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 1_800
"""The time for a first run, in which Karpenter is built; with it, a run takes less than ten minutes."""

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_karpenter_removes_nodes_that_equipoise_has_emptied() -> None:
    """No endpoint is missing for it, and no pod waits for a node. Takes minutes: a day is measured first."""
    done = subprocess.run(
        [sys.executable, "-c", "from equipoise.cli.main import main; main()", "demo", "--consolidate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["nodes_before"] == 12
    assert result["nodes_by_requests"] <= result["nodes_after"] < 12, result
    assert result["saved_per_month"] > 0
    assert result["seconds_with_fewer_ready"] == 0, result
    assert result["pending_pods"] == 0, result
    assert result["hottest"] < 100, result
