"""What a machine needs for real nodes."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

PACKAGES: Mapping[str, str] = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "unshare": "util-linux",
}
"""Programs, each with its package in Debian and Ubuntu."""

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""The controllers of cgroup v1. Each has a hierarchy of its own."""


class RealNodesError(RuntimeError):
    """Real nodes cannot be made or do not start; the message states why, and what to do."""


def check_machine() -> None:
    """Raises RealNodesError with one sentence that names all that is missing."""
    if reason := missing(
        linux=sys.platform == "linux",
        root=os.geteuid() == 0,
        installed=lambda program: shutil.which(program, path=search_path()) is not None,
        hierarchies=[name for name in CONTROLLERS if (CGROUPS / name / "cgroup.procs").exists()],
    ):
        raise RealNodesError(reason)


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """PATH with the folders of system programs, which the PATH of a user may lack."""
    return os.pathsep.join((environment.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def missing(*, linux: bool, root: bool, installed: Callable[[str], bool], hierarchies: list[str]) -> str:
    """One sentence; empty if nothing is missing. `hierarchies`: controllers that are mounted as cgroup v1."""
    if not linux:
        return "real nodes need Linux: leave out --real-nodes for a cluster with fake nodes"
    needs = []
    if not root:
        needs.append("root (sudo)")
    if packages := sorted({package for program, package in PACKAGES.items() if not installed(program)}):
        needs.append(f"these packages (apt-get install {' '.join(packages)})")
    if absent := [name for name in CONTROLLERS if name not in hierarchies]:
        needs.append(
            f"cgroup v1 with the controllers {', '.join(absent)} (boot with systemd.unified_cgroup_hierarchy=0)"
        )
    return f"real nodes need {', and '.join(needs)}" if needs else ""
