"""Some tests run on the control plane of each supported minor version that has been built.

`equipoise testbed build --kubernetes 1.33` builds one.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from equipoise.contracts.kubernetes.supported_versions import minor_versions
from equipoise.testbed.binaries.build import control_plane, default_cache

ROOT = Path(__file__).parents[3]
SELECTION = (
    "tests/testbed/test_cluster.py",
    "tests/runtime/kubernetes/test_client.py",
    "tests/e2e/test_placement_hints.py",
    "tests/e2e/test_hints_webhook.py",
    "tests/e2e/test_webhook_guard.py",
    "tests/reclaimer/test_real_cluster.py",
)
"""The cluster with all its parts, the client of the API server, hints by policy and webhook, and the fences."""

SECONDS = 900

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


@pytest.mark.parametrize("minor", minor_versions())
async def test_a_minor_version_passes_the_tests_of_the_api(minor: str) -> None:
    """Takes minutes: clusters are started, and the webhook must be healthy for a minute."""
    if not control_plane(minor).directory(default_cache()).exists():
        pytest.skip(f"it is not built: equipoise testbed build --kubernetes {minor}")
    command = (sys.executable, "-m", "pytest", "-q", "-m", "cluster", "--kubernetes", minor, *SELECTION)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    text = output.decode(errors="replace")

    assert 0 == process.returncode, text[-20_000:]
    assert re.search(r"\d\d passed", text), text
