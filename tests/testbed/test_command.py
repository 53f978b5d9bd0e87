"""The commands `equipoise testbed up`, `status` and `down`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from equipoise.testbed import command
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.running_clusters import process_start

pytestmark = pytest.mark.timeout(240)

TESTBED = [sys.executable, "-c", "from equipoise.testbed.command import testbed; testbed()"]


def test_up_runs_a_cluster_until_down_stops_it(testbed_binaries: Binaries, tmp_path: Path) -> None:
    """`status` lists it in between. All components end."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TESTBED, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    with (tmp_path / "up.log").open("w") as output:
        up = subprocess.Popen(
            [*TESTBED, "up", "--nodes", "2", "--directory", str(tmp_path / "here")],
            env=environment,
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + 90
    while not (shown := json.loads(run("status", "-o", "json").stdout)) and time.monotonic() < deadline:
        time.sleep(0.2)
    second = run("up")
    etcd = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_etcd(int(pid), tmp_path)]
    down = run("down")

    assert "default" == shown[0]["name"]
    assert "a cluster named default runs already" in second.stderr
    assert len(etcd) == 1
    assert "stopped default\n" == down.stdout
    assert up.wait(timeout=30) == 0
    assert process_start(etcd[0]) is None
    assert [] == json.loads(run("status", "-o", "json").stdout)
    assert "no cluster named default runs" in run("down").stderr
    assert f"equipoise report --prometheus {shown[0]['prometheus']}" in (tmp_path / "up.log").read_text()


def test_a_virtual_machine_is_added_to_real_nodes_only() -> None:
    for options in (["--vm"], ["--vm", "cgroup-v1"]):
        done = CliRunner().invoke(command.testbed, ["up", *options])

        assert done.exit_code == 2
        assert "add --real-nodes 1" in done.output


def test_an_unknown_system_of_a_virtual_machine_is_refused_with_the_known_ones() -> None:
    done = CliRunner().invoke(command.testbed, ["up", "--real-nodes", "1", "--vm", "cgroup-v3"])

    assert done.exit_code == 2
    assert "cgroup-v1" in done.output


def _is_etcd(pid: int, directory: Path) -> bool:
    try:
        return f"--data-dir={directory}" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
