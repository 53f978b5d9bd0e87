"""Groups of this machine, below one of their own, and processes in them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")

BURNER = "while True: pass"


class RealCgroups:
    """Cgroup v1, as root: `top` is the name of the group below which all others are."""

    def __init__(self) -> None:
        self.top = f"equipoise-test-{os.getpid()}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def make(self, group: str) -> None:
        """In every hierarchy, and in the one with pressure, below `top`."""
        for hierarchy in (*CONTROLLERS, "unified"):
            if not (ROOT / hierarchy).is_dir():
                continue
            directory = ROOT / hierarchy / self.top / group
            directory.mkdir(parents=True, exist_ok=True)
            if hierarchy == "cpuset":
                for each in (*reversed(Path(group).parents), Path(group)):
                    self._inherit(ROOT / hierarchy / self.top / each)

    @staticmethod
    def _inherit(directory: Path) -> None:
        """As runc does: a new group of v1 has no CPUs and no memory nodes."""
        for name in ("cpuset.cpus", "cpuset.mems"):
            above = directory.parents[0] / name
            if not (directory / name).read_text().strip():
                (directory / name).write_text(above.read_text())

    def path(self, group: str, name: str) -> Path:
        hierarchy = "cpuacct" if name.startswith("cpuacct") else name.partition(".")[0]
        return ROOT / hierarchy / self.top / group / name

    def get(self, group: str, name: str) -> str:
        return self.path(group, name).read_text().strip()

    def put(self, group: str, name: str, value: str) -> None:
        self.path(group, name).write_text(value)

    def run(self, group: str, code: str = BURNER) -> subprocess.Popen[bytes]:
        """A Python program in this group of every hierarchy."""
        process = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
        self._processes.append(process)
        for hierarchy in (*CONTROLLERS, "unified"):
            directory = ROOT / hierarchy / self.top / group
            if directory.is_dir():
                (directory / "cgroup.procs").write_text(str(process.pid))
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def remove(self, group: str = "") -> None:
        """From the bottom up."""
        for hierarchy in (*CONTROLLERS, "unified"):
            top = ROOT / hierarchy / self.top / group
            for directory, _, _ in os.walk(top, topdown=False):
                with suppress(FileNotFoundError):
                    os.rmdir(directory)

    def end(self) -> None:
        for process in self._processes:
            self.stop(process)
        self.remove()


def why_not() -> str:
    """ "" where tests can make groups of cgroup v1."""
    if os.geteuid() != 0:
        return "only root may make cgroups"
    missing = [each for each in CONTROLLERS if not os.access(ROOT / each / "cgroup.procs", os.W_OK)]
    return f"no writable cgroup v1 hierarchy for {', '.join(missing)}" if missing else ""


@contextmanager
def real_cgroups() -> Iterator[RealCgroups]:
    if reason := why_not():
        pytest.skip(reason)
    cgroups = RealCgroups()
    try:
        cgroups.make("")
        yield cgroups
    finally:
        cgroups.end()


class UnifiedCpusets:
    """Groups of cgroup v2 with the controller cpuset, below one of their own."""

    def __init__(self) -> None:
        self._top = ROOT / f"equipoise-test-{os.getpid()}"
        self._process: subprocess.Popen[bytes] | None = None
        (self._top / "top" / "inner").mkdir(parents=True)
        for directory in (ROOT, self._top):
            (directory / "cgroup.subtree_control").write_text("+cpuset")

    def path(self, group: str, name: str) -> Path:
        return self._top / group / name

    def populate(self, group: str, populated: bool) -> None:
        """Starts or ends a process in it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if populated:
            self._process = subprocess.Popen([sys.executable, "-S", "-c", BURNER], start_new_session=True)
            (self._top / group / "cgroup.procs").write_text(str(self._process.pid))

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for directory, _, _ in os.walk(self._top, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)


@contextmanager
def unified_cpusets() -> Iterator[UnifiedCpusets]:
    controllers = ROOT / "cgroup.controllers"
    if os.geteuid() != 0 or not controllers.exists() or "cpuset" not in controllers.read_text().split():
        pytest.skip("this machine has no cgroup v2 with the controller cpuset, or the user is not root")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a set of CPUs needs two of them")
    cgroups = UnifiedCpusets()
    try:
        yield cgroups
    finally:
        cgroups.end()
