"""The cgroups and the folder of a cluster with real nodes, named after the process that owns them.

If this process was killed, a later start of a cluster removes them.
"""

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from equipoise.testbed.real_nodes.requirements import CGROUPS, CONTROLLERS
from equipoise.testbed.running_clusters import process_start

PREFIX = "equipoise-testbed-nodes"
SHARES = 4096
"""CPU weight of all nodes together. Each process in the root cgroup has 1024, as much as a cgroup has by default."""

REMOVE_SECONDS = 20.0
POLL_SECONDS = 0.05


def own_name() -> str:
    pid = os.getpid()
    return f"{PREFIX}-{pid}-{process_start(pid)}"


def has_ended(name: str) -> bool:
    """Whether the process that owns this name has ended."""
    match = re.fullmatch(rf"{PREFIX}-(\d+)-(\d+)", name)
    return match is not None and process_start(int(match[1])) != match[2]


def create_groups(name: str, node: str) -> list[Path]:
    """Create one cgroup per controller. A new cpuset has no CPUs, so it gets those of the root."""
    groups = []
    for controller in CONTROLLERS:
        top = CGROUPS / controller
        group = top / name / node
        group.mkdir(parents=True)
        groups.append(group)
        if controller == "cpuset":
            for folder in (group.parent, group):
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((top / file).read_text())
        if controller == "cpu":
            (group.parent / "cpu.shares").write_text(str(SHARES))
    return groups


def remove_groups(name: str) -> None:
    """Remove the cgroups as soon as their processes, which must have been killed, have ended.

    Raises OSError if they do not end.
    """
    deadline = time.monotonic() + REMOVE_SECONDS
    for controller in CONTROLLERS:
        top = CGROUPS / controller / name
        while top.exists():
            try:
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(FileNotFoundError):
                        Path(folder).rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)


def create_folder(name: str) -> Path:
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700)
    return folder


def remove_leftovers() -> None:
    """Remove the cgroups and folders of processes that have ended."""
    for name in {path.name for controller in CONTROLLERS for path in (CGROUPS / controller).glob(f"{PREFIX}-*")}:
        if has_ended(name):
            remove_groups(name)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"):
        if has_ended(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
