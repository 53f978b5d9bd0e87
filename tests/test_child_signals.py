"""Processes started by tests end by the usual signals, however the tests were started."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PARENT = """
import signal, subprocess, sys
number = int(sys.argv[1])
signal.signal(number, signal.SIG_IGN)

from child_signals import stop_ignoring_signals
stop_ignoring_signals()

child = subprocess.Popen(["sleep", "300"])
child.send_signal(number)
print(child.wait())
if number == signal.SIGHUP:
    signal.raise_signal(number)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_children_end_by_a_signal_that_the_tests_were_started_to_ignore(number: signal.Signals) -> None:
    """nohup ignores SIGHUP, and the tests outlive it."""
    parent = [sys.executable, "-c", PARENT, str(int(number))]
    ended = subprocess.run(parent, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=60)
    assert int(ended.stdout) == -number


def test_this_process_ignores_no_signal_that_ends_its_children() -> None:
    assert signal.SIG_IGN not in (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP))
