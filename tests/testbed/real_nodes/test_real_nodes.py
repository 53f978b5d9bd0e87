"""A node with a kubelet and containers, by `equipoise testbed up --real-nodes`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from testbed.real_nodes.machines import added, machine_state, skip_without_cache

from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.real_nodes.leftovers import remove_leftovers

pytestmark = pytest.mark.timeout(300)

TESTBED = [sys.executable, "-c", "from equipoise.testbed.command import testbed; testbed()"]
SECONDS = 120.0

POD = """
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  automountServiceAccountToken: true
  containers:
    - name: main
      image: busybox
      imagePullPolicy: IfNotPresent
      command:
        - sh
        - -c
        - nslookup kubernetes.default.svc.cluster.local && id -u && ls /var/run/secrets/kubernetes.io/serviceaccount
      securityContext: {runAsUser: 10001, readOnlyRootFilesystem: true}
"""


@contextmanager
def running_cluster(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Callable[..., str]]]:
    """The process that keeps it, in a folder that is no clone, and kubectl in its network."""
    log = folder / "up.log"
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*TESTBED, "up", "--real-nodes", "1"], cwd=folder, env=environment, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + SECONDS
        while " get nodes" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        program = next(line for line in log.read_text().splitlines() if line.endswith(" get nodes")).split()[0]

        def kubectl(*arguments: str, stdin: str = "") -> str:
            return subprocess.run(
                [program, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=True
            ).stdout

        yield process, kubectl
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def test_a_pod_runs_on_a_real_node_and_nothing_of_it_remains(testbed_binaries: Binaries, tmp_path: Path) -> None:
    """Takes about 20 seconds: a kubelet starts, imports images, and ends."""
    skip_without_cache()
    before = machine_state()

    with running_cluster(tmp_path) as (process, kubectl):
        nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
        _await_account(kubectl)
        kubectl("apply", "-f", "-", stdin=POD)
        kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/pod", "--timeout=60s")
        output = kubectl("logs", "pod")
        during = machine_state()

    assert [node["metadata"]["name"] for node in nodes] == ["n1"]
    assert nodes[0]["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.37.")
    assert "10.79.0.1" in output, "DNS"
    assert "10001\nca.crt\nnamespace\ntoken\n" in output
    assert added(before, during).keys() == {"cgroups", "folders"}
    assert process.returncode == 0
    assert added(before, machine_state()) == {}


def test_the_next_start_removes_what_a_killed_one_left(testbed_binaries: Binaries, tmp_path: Path) -> None:
    """Takes about 15 seconds: a kubelet starts. All processes end with the killed one."""
    skip_without_cache()
    remove_leftovers()
    before = machine_state()

    with running_cluster(tmp_path) as (process, _):
        process.kill()
        process.wait()
    left = added(before, machine_state())
    remove_leftovers()

    assert len(left["folders"]) == 1
    assert added(before, machine_state()) == {}


def _await_account(kubectl: Callable[..., str]) -> None:
    """The controller manager creates it: without it a pod is refused."""
    deadline = time.monotonic() + SECONDS
    while "default" not in kubectl("get", "serviceaccounts", "-o", "name"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
