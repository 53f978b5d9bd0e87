"""What a process logs."""

import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from equipoise.runtime.process.logging import configure_logging
from equipoise.runtime.configuration import Logging

def fail(secret):
    raise ValueError("it failed")

configure_logging(Logging(format={format!r}), "scorer")
try:
    fail("s3" + "cret")
except ValueError as error:
    structlog.get_logger().error("failed", exc_info=error)
"""


@pytest.mark.parametrize("shape", ["console", "json"])
def test_a_traceback_contains_no_variables(shape: str) -> None:
    """They hold secrets, and rendering them holds up everything else; nothing of it goes to stdout."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(format=shape)], capture_output=True, text=True, check=True, timeout=60
    )

    assert "ValueError: it failed" in ended.stderr
    assert "s3cret" not in ended.stderr
    assert ended.stdout == ""
