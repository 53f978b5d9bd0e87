"""What a process logs."""

import json
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


LIBRARY = """
import logging
from equipoise.runtime.process.logging import configure_logging
from equipoise.runtime.configuration import Logging

configure_logging(Logging(level={level!r}), "doctor")
logging.getLogger("urllib3").setLevel(logging.WARNING)
logging.getLogger("urllib3.connectionpool").warning("Retrying")
logging.getLogger("urllib3.connectionpool").error("failed")
"""


@pytest.mark.parametrize(("level", "lines"), [("error", ["failed"]), ("warning", ["Retrying", "failed"])])
def test_a_library_that_sets_its_own_level_logs_no_more_than_the_process(level: str, lines: list[str]) -> None:
    """Retries of the HTTP client once stood above each error of a command: the client of Kubernetes sets its level."""
    ended = subprocess.run(
        [sys.executable, "-c", LIBRARY.format(level=level)], capture_output=True, text=True, check=True, timeout=60
    )

    assert [json.loads(line)["event"] for line in ended.stderr.splitlines()] == lines
