"""Cgroups as directories with the rules of the kernel, for machines where tests must not write real ones.

`test_kernel_rules.py` runs the same writes against this and against the kernel.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from equipoise.agent.decisions.cpu_sets import format_cpus, parse_cpus
from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles

FILES = {
    1: {
        "cpu": {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.shares": "1024", "cpu.idle": "0"},
        "cpuacct": {"cpuacct.usage": "0"},
        "cpuset": {"cpuset.cpus": ""},
        "memory": {"memory.soft_limit_in_bytes": str(2**63 - 4096), "memory.stat": ""},
    },
    2: {
        "": {
            "cpu.max": "max 100000",
            "cpu.weight": "100",
            "cpu.stat": "usage_usec 0",
            "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
            "cpuset.cpus": "",
            "cgroup.events": "populated 0\nfrozen 0",
            "memory.high": "max",
            "memory.stat": "anon 0",
        }
    },
}
"""By version and hierarchy: the files of a new group."""


class FakeCgroups(CgroupFiles):
    """`root` is like /sys/fs/cgroup."""

    def __init__(self, root: Path, version: int, cpus: str = "0-3") -> None:
        super().__init__()
        self._root = root
        self._cpus = cpus
        self.version = version
        self._populated: set[Path] = set()
        """Groups with processes, in themselves or below."""

        if version == 2:
            (root / "cgroup.controllers").write_text("cpuset cpu memory\n")
        self.make("")

    def make(self, group: str) -> None:
        """In every hierarchy, with all groups above."""
        for above in (*reversed(Path(group).parents), Path(group)):
            for hierarchy, files in FILES[self.version].items():
                directory = self._root / hierarchy / above
                if directory.is_dir() and (directory / next(iter(files))).exists():
                    continue
                directory.mkdir(parents=True, exist_ok=True)
                for name, value in files.items():
                    (directory / name).write_text(value)
                if "cpuset.cpus" in files and str(above) == ".":
                    (directory / "cpuset.cpus").write_text(self._cpus)

    def put(self, group: str, name: str, value: str) -> None:
        """As the kernel would: a counter, or what another program writes."""
        self.path(group, name).write_text(value)

    def populate(self, group: str, populated: bool = True) -> None:
        """A process in the group counts for all groups above it; a group without processes has none below either."""
        for each in (Path(group), *Path(group).parents) if populated else (Path(group),):
            self._populated.add(each) if populated else self._populated.discard(each)
            if self.version == 2:
                self.put(str(each), "cgroup.events", f"populated {int(populated)}\nfrozen 0")

    def get(self, group: str, name: str) -> str:
        return self.path(group, name).read_text().strip()

    def path(self, group: str, name: str) -> Path:
        for hierarchy, files in FILES[self.version].items():
            if name in files:
                return self._root / hierarchy / group / name
        raise KeyError(name)

    def read(self, path: str) -> str | None:
        """A removed group cannot be read, although its files are still open."""
        file = Path(path)
        if file.name == "cpuset.cpus.effective" and self.version == 2:
            return format_cpus(self._effective(file.parent)) if file.parent.is_dir() else None
        return super().read(path) if os.path.exists(path) else None

    def _write(self, path: str, text: str) -> None:
        file = Path(path)
        if not file.exists():
            raise OSError(errno.ENOENT, path)
        match file.name:
            case "cpu.cfs_quota_us":
                self._check_quota(file, int(text))
            case "cpu.max" if not text.startswith("max") and int(text.split(maxsplit=1)[0]) < 1_000:
                raise OSError(errno.EINVAL, path)
            case "cpu.shares" | "cpu.weight":
                if (file.parent / "cpu.idle").exists() and (file.parent / "cpu.idle").read_text() == "1":
                    raise OSError(errno.EINVAL, path)
                if file.name == "cpu.shares":
                    text = str(min(max(int(text), 2), 262_144))
            case "cpu.idle" if text == "1":
                (file.parent / "cpu.shares").write_text("3")
            case "cpuset.cpus":
                text = self._checked_cpus(file, text)
            case "memory.soft_limit_in_bytes" | "memory.high" if text != "max":
                text = str(2**63 - 4096 if text == "-1" else int(text) // 4_096 * 4_096)
        file.write_text(text)

    def _check_quota(self, file: Path, quota: int) -> None:
        """Of v1: at least 1 ms, at most that of the parent, at least that of each child."""
        if quota != -1:
            above = [int(value) for value in self._above(file) if int(value) != -1]
            if quota < 1_000 or (above and quota > above[0]):
                raise OSError(errno.EINVAL, str(file))
            if any(int(each.read_text()) > quota for each in file.parent.rglob(file.name) if each != file):
                raise OSError(errno.EINVAL, str(file))

    def _checked_cpus(self, file: Path, text: str) -> str:
        cpus = parse_cpus(text)
        if self.version == 1:
            if not cpus <= parse_cpus(next(self._above(file), self._cpus)):
                raise OSError(errno.EACCES, str(file))
            if any(not parse_cpus(each.read_text()) <= cpus for each in file.parent.glob(f"*/{file.name}")):
                raise OSError(errno.EBUSY, str(file))
        hierarchy = self._root / "cpuset" if self.version == 1 else self._root
        if not cpus and file.read_text().strip() and file.parent.relative_to(hierarchy) in self._populated:
            raise OSError(errno.ENOSPC, str(file))
        return format_cpus(cpus)

    def _effective(self, directory: Path) -> frozenset[int]:
        """The CPUs of v2: those of the group that the parent has; all of the parent's if it has none of them."""
        cpus = parse_cpus((directory / "cpuset.cpus").read_text())
        if directory == self._root:
            return cpus
        above = self._effective(directory.parent)
        return cpus & above or above

    def _above(self, file: Path) -> Iterator[str]:
        """The values of the parents, the nearest first."""
        for parent in file.parent.parents:
            if parent == self._root or not (parent / file.name).exists():
                return
            yield (parent / file.name).read_text()
