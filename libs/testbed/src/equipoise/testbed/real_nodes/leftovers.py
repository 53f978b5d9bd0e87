"""The cgroups and the folder of a cluster with real nodes, named after the process that owns them.

A later start removes those of a process that was killed.
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
"""Weight of all nodes together. The default, 1024, is that of one process of the machine."""

REMOVE_SECONDS = 20.0
POLL_SECONDS = 0.05


def own_name() -> str:
    pid = os.getpid()
    return f"{PREFIX}-{pid}-{process_start(pid)}"


def has_ended(name: str) -> bool:
    """Whether `name` is that of a process that does not run anymore."""
    found = re.fullmatch(rf"{PREFIX}-(\d+)-(\d+)", name)
    return found is not None and process_start(int(found[1])) != found[2]


def create_groups(name: str, node: str) -> list[Path]:
    """One cgroup per controller. A new one of cpuset has no CPUs until it gets those of its parent."""
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
    """Waits for the processes in them, which must have been killed. Raises OSError if they do not end."""
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
    """Remove what belongs to processes that have ended."""
    for name in {path.name for controller in CONTROLLERS for path in (CGROUPS / controller).glob(f"{PREFIX}-*")}:
        if has_ended(name):
            remove_groups(name)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"):
        if has_ended(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
