"""What a process logs."""

import subprocess
import sys

import pytest

from equipoise.contracts.plain_text import visible

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


HOSTILE = """
import structlog
from equipoise.runtime.process.logging import configure_logging
from equipoise.runtime.configuration import Logging

configure_logging(Logging(format={format!r}), "scorer")
text = chr(27) + "]52;c;x" + chr(7) + chr(0x9b) + "2J" + chr(0x202e) + "\\n2026 a line of its own"
structlog.get_logger().warning("refused", why=text)
try:
    raise ValueError(text)
except ValueError as error:
    structlog.get_logger().error("failed", exc_info=error)
"""


@pytest.mark.parametrize("shape", ["console", "json"])
def test_what_others_wrote_is_text_in_a_log(shape: str) -> None:
    """An annotation that a reason quotes neither controls the terminal nor looks like a line of the log."""
    ended = subprocess.run(
        [sys.executable, "-c", HOSTILE.format(format=shape)], capture_output=True, text=True, check=True, timeout=60
    )

    assert visible(ended.stderr) == ended.stderr
    assert "]52;c;x" in ended.stderr.splitlines()[0]
    assert "a line of its own" in ended.stderr.splitlines()[0]
