"""docker-compose.yml in containers, by podman and podman-compose, as docs/install.md describes it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deployment.base import ROOT
from e2e.compose_in_containers import HELPERS, remove_groups

from equipoise.testbed.real_nodes.requirements import RealNodesError, check_machine

SECONDS = 1_800
"""The time for a first run beside other work, which builds the images."""

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]

NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""All that is started ends with the program, and the network of the machine stays as it is."""


def missing() -> list[str]:
    """What the machine lacks."""
    helpers = [*HELPERS, *os.environ.get("EQUIPOISE_PODMAN_HELPERS", "").split(":")]
    found = {each for each in ("netavark", "aardvark-dns") if any((Path(folder) / each).exists() for folder in helpers)}
    found |= {each for each in ("podman", "podman-compose", "runc") if shutil.which(each)}
    return sorted({"podman", "podman-compose", "runc", "netavark", "aardvark-dns"} - found)


def test_the_documented_commands_lead_to_scores_and_a_dry_run(tmp_path: Path) -> None:
    """Takes minutes: eight containers, and usage that is known only when it was measured."""
    try:
        check_machine()
    except RealNodesError as error:
        pytest.skip(str(error))
    if absent := missing():
        pytest.skip(f"not on this machine: {', '.join(absent)}")

    done = subprocess.run(
        [*NAMESPACES, sys.executable, "-m", "e2e.compose_in_containers", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    remove_groups()

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["evicted"] == 0
    assert result["setup"] == 0
    assert result["seconds"].keys() == {"healthy", "scored", "dry_run"}
