"""The fake cgroups have the rules of the kernel: the same writes have the same results."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.fake_cgroups import FakeCgroups
from agent.real_cgroups import ROOT, real_cgroups, unified_cpusets

from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles

SCRIPT = [
    ("parent", "cpu.cfs_quota_us", "100000"),
    ("parent/child", "cpu.cfs_quota_us", "200000"),  # above the parent
    ("parent/child", "cpu.cfs_quota_us", "50000"),
    ("parent", "cpu.cfs_quota_us", "20000"),  # below the child
    ("parent/child", "cpu.cfs_quota_us", "20000"),
    ("parent", "cpu.cfs_quota_us", "20000"),
    ("parent/child", "cpu.cfs_quota_us", "999"),  # shorter than 1 ms
    ("parent/child", "cpu.cfs_quota_us", "1000"),
    ("parent", "cpu.cfs_quota_us", "-1"),
    ("parent/child", "cpu.cfs_quota_us", "300000"),
    ("parent/child/below", "cpu.cfs_quota_us", "300001"),  # above the grandparent's, with none between
    ("parent/child", "cpu.cfs_quota_us", "-1"),
    ("parent", "cpu.shares", "1"),
    ("parent", "cpu.shares", "2"),
    ("parent", "cpu.shares", "300000"),
    ("parent", "cpu.idle", "1"),
    ("parent", "cpu.shares", "512"),  # while idle
    ("parent", "cpuset.cpus", "0-1"),
    ("parent/child", "cpuset.cpus", "0-1"),
    ("parent", "cpuset.cpus", "0"),  # without what the child has
    ("parent/child", "cpuset.cpus", "0"),
    ("parent", "cpuset.cpus", "0"),
    ("parent/child", "cpuset.cpus", "1"),  # beyond the parent
    ("parent", "cpuset.cpus", "0,1"),
    ("busy/inner", "cpuset.cpus", "\n"),  # with a process
    ("busy", "cpuset.cpus", "\n"),
    ("busy/inner", "cpuset.cpus", "0"),
    ("busy", "cpuset.cpus", "\n"),
    ("idle", "cpuset.cpus", "\n"),  # without a process
    ("parent", "memory.soft_limit_in_bytes", "10000"),  # no whole pages
    ("parent", "memory.soft_limit_in_bytes", "-1"),
    ("gone", "cpu.shares", "2"),
]
"""Group, file, value: of a machine with at least two CPUs."""


def results(write: Callable[[str, str], None], path: Callable[[str, str], Path]) -> Iterator[str]:
    """After each write the error, or none, and the value that is read back."""
    for group, name, value in SCRIPT:
        yield f"{group} {name} {value}: {outcome(write, path(group, name), value)}"


def outcome(write: Callable[[str, str], None], file: Path, value: str) -> str:
    """The error, and the value that is read back."""
    result = "ok"
    try:
        write(str(file), value)
    except OSError as error:
        result = errno.errorcode[error.errno or 0]
    return f"{result}, {file.read_text().strip() if file.exists() else 'none'}"


def test_the_fake_has_the_rules_of_the_kernel(tmp_path: Path) -> None:
    """Of cgroup v1: each write of the script returns the same error, and the same value is there after it."""
    with real_cgroups() as real:
        cpus = (ROOT / "cpuset" / "cpuset.cpus").read_text().strip()
        fake = FakeCgroups(tmp_path, 1, cpus)
        for group in ("parent/child/below", "busy/inner", "idle", "gone"):
            real.make(group)
            fake.make(group)
        for group in ("parent/child/below", "parent/child", "parent", "busy/inner", "busy", "idle"):
            fake.put(group, "cpuset.cpus", "" if group.endswith("below") else cpus)
        real.run("busy/inner", "import time; time.sleep(600)")
        fake.populate("busy/inner")
        real.put("parent/child/below", "cpuset.cpus", "\n")
        real.remove("gone")
        for hierarchy in ("cpu", "cpuacct", "cpuset", "memory"):
            for file in (tmp_path / hierarchy / "gone").iterdir():
                file.unlink()
            (tmp_path / hierarchy / "gone").rmdir()

        assert list(results(CgroupFiles._write, real.path)) == list(results(fake._write, fake.path))


def test_the_kernel_of_v2_refuses_no_cpus_for_a_group_with_processes(tmp_path: Path) -> None:
    """ENOSPC; those of the parent are accepted, and so are none when the processes have ended."""
    outcomes = []
    fake = FakeCgroups(tmp_path, 2, "0-1")
    for group in ("", "top", "top/inner"):
        fake.make(group)
    with unified_cpusets() as real:
        for write, path, populate in (
            (CgroupFiles._write, real.path, real.populate),
            (fake._write, fake.path, fake.populate),
        ):
            write(str(path("top", "cpuset.cpus")), "0")
            populate("top/inner", True)
            found = [outcome(write, path("top", "cpuset.cpus"), text) for text in ("", "0-1")]
            populate("top/inner", False)
            outcomes.append([*found, outcome(write, path("top", "cpuset.cpus"), "")])

    assert outcomes == [["ENOSPC, 0", "ok, 0-1", "ok, "]] * 2
