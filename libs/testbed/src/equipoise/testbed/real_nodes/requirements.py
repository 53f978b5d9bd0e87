"""The requirements of real nodes, of a virtual machine, and of images alone, on the machine."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

PACKAGES: Mapping[str, str] = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "qemu-system-x86_64": "qemu-system-x86",
    "unshare": "util-linux",
}
"""Programs, each with its package in Debian and Ubuntu."""

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""The controllers of cgroup v1. Each has a hierarchy of its own."""


class RealNodesError(RuntimeError):
    """Real nodes cannot be created or do not start. The message has the reason, and what to do."""


@dataclass(frozen=True, kw_only=True)
class MachineRequirements:
    """The requirements of real nodes or images on the machine, besides Linux and root."""

    needs: str
    """The first words of a sentence that ends with the missing requirements."""

    programs: tuple[str, ...]
    controllers: tuple[str, ...]
    elsewhere: str
    """The advice for a system other than Linux."""

    processor: str = ""
    """The type of processor, as `uname -m` names it; empty for any."""

    devices: tuple[str, ...] = ()


REAL_NODES = MachineRequirements(
    needs="real nodes need",
    programs=("buildah", "conntrack", "ip", "mmdebstrap", "nft", "nsenter", "openssl", "unshare"),
    controllers=CONTROLLERS,
    elsewhere="leave out --real-nodes for a cluster with fake nodes",
)
VIRTUAL_MACHINE = replace(
    REAL_NODES,
    needs="real nodes with a virtual machine need",
    programs=(*REAL_NODES.programs, "mke2fs", "qemu-system-x86_64"),
    processor="x86_64",
    devices=("/dev/net/tun",),
)
IMAGES = MachineRequirements(
    needs="images need",
    programs=("buildah", "mmdebstrap", "unshare"),
    controllers=(),
    elsewhere="build them on another machine",
)


def check_machine(required: MachineRequirements = REAL_NODES) -> None:
    """Raises RealNodesError, with one sentence that names all missing requirements."""
    if reason := missing(
        required,
        linux=sys.platform == "linux",
        root=os.geteuid() == 0,
        installed=lambda program: shutil.which(program, path=search_path()) is not None,
        hierarchies=[name for name in CONTROLLERS if (CGROUPS / name / "cgroup.procs").exists()],
        processor=platform.machine(),
        exists=os.path.exists,
    ):
        raise RealNodesError(reason)


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """PATH with the folders of system programs, which the PATH of a user may lack."""
    return os.pathsep.join((environment.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def missing(
    required: MachineRequirements,
    *,
    linux: bool,
    root: bool,
    installed: Callable[[str], bool],
    hierarchies: Collection[str],
    processor: str,
    exists: Callable[[str], bool],
) -> str:
    """One sentence that names all missing requirements; empty if nothing is missing.

    `hierarchies`: the controllers that are mounted as cgroup v1. `exists`: whether there is a device.
    """
    if not linux:
        return f"{required.needs} Linux: {required.elsewhere}"
    needs = []
    if not root:
        needs.append("root (sudo)")
    if packages := sorted({PACKAGES[program] for program in required.programs if not installed(program)}):
        needs.append(f"these packages (apt-get install {' '.join(packages)})")
    if absent := [name for name in required.controllers if name not in hierarchies]:
        needs.append(
            f"cgroup v1 with the controllers {', '.join(absent)} (boot with systemd.unified_cgroup_hierarchy=0)"
        )
    if required.processor not in ("", processor):
        needs.append(f"a processor of the type {required.processor}")
    if devices := [name for name in required.devices if not exists(name)]:
        needs.append(f"the device {', '.join(devices)} (modprobe tun)")
    return f"{required.needs} {', and '.join(needs)}" if needs else ""
