"""No child outlives its parent, whatever kills the parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from equipoise.testbed.processes.guard import Guard, GuardError
from equipoise.testbed.running_clusters import process_start

PARENT = """
import sys, threading, time
from pathlib import Path
from equipoise.testbed.processes.guard import Guard

guard = Guard()
pids = []
thread = threading.Thread(
    target=lambda: pids.extend(guard.start(["sleep", "300"], log=Path(sys.argv[1])) for _ in range(3))
)
thread.start()
thread.join()
print(guard.pid, *pids, flush=True)
time.sleep(300)
"""


STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
signal.pause()
"""


def dead_within(pid: int, seconds: float) -> bool:
    # Where PID 1 reaps slowly an orphan stays a zombie, which os.kill(pid, 0) calls alive: process_start looks closer.
    deadline = time.monotonic() + seconds
    while process_start(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL to the parent ends the guard and every child, also those started from a thread."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        alive = [process_start(pid) is not None for pid in pids]
        parent.kill()

    assert [True] * 4 == alive
    assert [True] * 4 == [dead_within(pid, 30) for pid in pids]


def test_children_die_with_a_guard_that_is_killed(tmp_path: Path) -> None:
    """When the guard itself is killed its children go too, and the parent is told."""
    with Guard() as guard:
        child = guard.start(["sleep", "300"], log=tmp_path / "log")
        os.kill(guard.pid, signal.SIGKILL)

        assert dead_within(child, 30)
        with pytest.raises(GuardError, match="has ended, and its children with it"):
            guard.exit_code(child)


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """A child does not depend on the thread that asked for it."""
    with Guard() as guard:
        pids: list[int] = []
        thread = threading.Thread(target=lambda: pids.append(guard.start(["sleep", "300"], log=tmp_path / "log")))
        thread.start()
        thread.join()
        time.sleep(0.1)

        assert guard.exit_code(pids[0]) is None


def test_exit_codes_and_output(tmp_path: Path) -> None:
    """The guard tells how a child ended, and what it said is in its log."""
    log = tmp_path / "log"
    with Guard() as guard:
        failing = guard.start(
            [sys.executable, "-c", "import os; print(os.environ['WORD'], os.getcwd()); raise SystemExit(3)"],
            log=log,
            environment={"WORD": "hello"},
            directory=tmp_path,
        )
        while (code := guard.exit_code(failing)) is None:
            time.sleep(0.01)
        stubborn = guard.start([sys.executable, "-c", STUBBORN], log=(deaf := tmp_path / "deaf"))
        while not deaf.read_text():
            time.sleep(0.01)

        assert code == 3
        assert log.read_text() == f"hello {tmp_path}\n"
        assert guard.stop(stubborn, timeout=0.2) == -signal.SIGKILL
        assert guard.stop(stubborn) == -signal.SIGKILL


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """Starting a missing program is an error that names it, and the guard goes on."""
    with Guard() as guard:
        with pytest.raises(GuardError, match="cannot start /no/such/program"):
            guard.start(["/no/such/program"], log=tmp_path / "log")

        assert guard.exit_code(guard.start(["sleep", "300"], log=tmp_path / "log")) is None


def test_the_environment_of_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are added, and taken away by None."""
    monkeypatch.setenv("TAKEN_AWAY", "here")
    with Guard() as guard:
        child = guard.start(["env"], log=tmp_path / "log", environment={"ADDED": "yes", "TAKEN_AWAY": None})
        while guard.exit_code(child) is None:
            time.sleep(0.01)
    lines = (tmp_path / "log").read_text().splitlines()

    assert "ADDED=yes" in lines
    assert not [line for line in lines if line.startswith("TAKEN_AWAY")]
