"""Child processes that never outlive their parent, however it ends.

A single-threaded process, the guard, starts them. It ends when its standard input closes, which only the parent holds
open. Without the guard, a child would end with the *thread* that started it, because PDEATHSIG is bound to the thread
that forked. So the parent may use the guard from any thread.

This file contains both sides. The parent imports `Guard` from it, and `python -I` runs it as the guard. So it imports
no other module of Equipoise.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
REAP_SECONDS = 0.2


class GuardError(RuntimeError):
    """A child could not be started, or the guard has ended."""


class Guard:
    """The client of the guard in the parent: starts, stops and polls children, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The guard has its own session, so that Ctrl-C reaches only the parent, which then stops the children in order.
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str | None] | None = None,
        directory: Path | None = None,
    ) -> int:
        """Start a program with its output appended to `log`.

        `environment` is added to the inherited one; None removes a variable.
        """
        reply = self._request(
            command="start",
            argv=[str(word) for word in argv],
            log=str(log),
            environment=dict(environment or {}),
            directory=None if directory is None else str(directory),
        )
        if "error" in reply:
            raise GuardError(f"cannot start {argv[0]}: {reply['error']}")
        return int(reply["pid"])

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a child; negative if a signal ended it. None while it runs."""
        code = self._request(command="poll", pid=pid)["code"]
        return None if code is None else int(code)

    def send(self, pid: int, number: int) -> None:
        """Send a signal to the child's process group; does nothing when it has ended."""
        self._request(command="signal", pid=pid, number=int(number))

    def stop(self, pid: int, *, number: int = signal.SIGTERM, timeout: float = 2.0) -> int:
        """Send a signal, wait, and send SIGKILL after `timeout` seconds; returns the exit code."""
        self.send(pid, number)
        deadline = time.monotonic() + timeout
        # Wait here: other threads may use the guard in the meantime.
        while (code := self.exit_code(pid)) is None:
            if time.monotonic() > deadline:
                self.send(pid, signal.SIGKILL)
            time.sleep(0.005)
        return code

    def close(self) -> None:
        """Kill every child, the youngest first, and end the guard."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            with contextlib.suppress(BrokenPipeError):  # the guard ended before it read a command
                self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(command) + "\n")
                line = self._process.stdout.readline()
        except (OSError, ValueError) as error:
            raise GuardError(f"the guard (pid {self.pid}) has ended, and its children with it") from error
        if not line:
            raise GuardError(f"the guard (pid {self.pid}) has ended, and its children with it")
        reply: dict[str, Any] = json.loads(line)
        return reply


class _Children:
    def __init__(self) -> None:
        self.codes: dict[int, int | None] = {}  # in the order of their start
        self.libc = ctypes.CDLL(None, use_errno=True)  # before any fork: loading acquires locks

    def start(
        self, argv: list[str], log: str, environment: dict[str, str | None], directory: str | None
    ) -> dict[str, Any]:
        guard = os.getpid()
        merged = {**os.environ, **environment}

        def die_with_guard() -> None:
            if sys.platform == "linux":
                self.libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != guard:  # the guard ended between fork and prctl
                os._exit(1)

        try:
            with open(log, "ab") as output:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=directory,
                    env={name: value for name, value in merged.items() if value is not None},
                    process_group=0,
                    preexec_fn=die_with_guard,  # noqa: PLW1509 - this process has one thread
                )
        except (OSError, subprocess.SubprocessError) as error:
            return {"error": str(error)}
        child.returncode = 0  # reaped below, not by Popen
        self.codes[child.pid] = None
        return {"pid": child.pid}

    def reap(self) -> None:
        for pid in [pid for pid, code in self.codes.items() if code is None]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.codes[pid] = os.waitstatus_to_exitcode(status)

    def send(self, pid: int, number: int) -> None:
        # The pid of a child cannot be reused until it is reaped.
        if pid in self.codes and self.codes[pid] is None:
            os.killpg(pid, number)

    def kill_all(self) -> None:
        self.reap()
        running = [pid for pid, code in reversed(self.codes.items()) if code is None]
        for pid in running:
            self.send(pid, signal.SIGKILL)
        for pid in running:
            os.waitpid(pid, 0)

    def handle(self, command: dict[str, Any]) -> dict[str, Any]:
        self.reap()
        match command.pop("command"):
            case "start":
                return self.start(**command)
            case "signal":
                self.send(**command)
                return {}
            case "poll":
                # An unknown pid is that of no child, and counts as killed.
                return {"code": self.codes.get(command["pid"], -int(signal.SIGKILL))}
            case unknown:
                return {"error": f"unknown command {unknown}"}


def _guard() -> None:
    children = _Children()
    pending = b""
    try:
        while True:
            readable, _, _ = select.select([0], [], [], REAP_SECONDS)
            children.reap()
            if not readable:
                continue
            received = os.read(0, 1 << 16)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                os.write(1, json.dumps(children.handle(json.loads(line))).encode() + b"\n")
    finally:
        children.kill_all()


if __name__ == "__main__":
    _guard()
