"""Children never outlive their parent."""

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


IGNORES_SIGTERM = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


def dead_within(pid: int, seconds: float) -> bool:
    # os.kill(pid, 0) succeeds for zombies, which remain while PID 1 reaps slowly.
    deadline = time.monotonic() + seconds
    while process_start(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_children_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    """The guard too, and children that were started from a thread."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        alive = [process_start(pid) is not None for pid in pids]
        parent.kill()

    assert [True] * 4 == alive
    assert [True] * 4 == [dead_within(pid, 30) for pid in pids]


def test_children_end_when_the_guard_is_killed(tmp_path: Path) -> None:
    """The parent gets an error."""
    with Guard() as guard:
        child = guard.start(["sleep", "300"], log=tmp_path / "log")
        os.kill(guard.pid, signal.SIGKILL)

        assert dead_within(child, 30)
        with pytest.raises(GuardError, match="has ended, and its children with it"):
            guard.exit_code(child)


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    with Guard() as guard:
        pids: list[int] = []
        thread = threading.Thread(target=lambda: pids.append(guard.start(["sleep", "300"], log=tmp_path / "log")))
        thread.start()
        thread.join()
        time.sleep(0.1)

        assert guard.exit_code(pids[0]) is None


def test_the_guard_reports_exit_codes_and_writes_logs(tmp_path: Path) -> None:
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
        ignoring = guard.start([sys.executable, "-c", IGNORES_SIGTERM], log=(output := tmp_path / "output"))
        while not output.read_text():
            time.sleep(0.01)

        assert code == 3
        assert log.read_text() == f"hello {tmp_path}\n"
        assert guard.stop(ignoring, timeout=0.2) == -signal.SIGKILL
        assert guard.stop(ignoring) == -signal.SIGKILL


def test_the_error_for_a_missing_program_contains_its_path(tmp_path: Path) -> None:
    """The guard still works after it."""
    with Guard() as guard:
        with pytest.raises(GuardError, match="cannot start /no/such/program"):
            guard.start(["/no/such/program"], log=tmp_path / "log")

        assert guard.exit_code(guard.start(["sleep", "300"], log=tmp_path / "log")) is None


def test_environment_variables_are_added_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None removes a variable."""
    monkeypatch.setenv("REMOVED", "here")
    with Guard() as guard:
        child = guard.start(["env"], log=tmp_path / "log", environment={"ADDED": "yes", "REMOVED": None})
        while guard.exit_code(child) is None:
            time.sleep(0.01)
    lines = (tmp_path / "log").read_text().splitlines()

    assert "ADDED=yes" in lines
    assert not [line for line in lines if line.startswith("REMOVED")]
