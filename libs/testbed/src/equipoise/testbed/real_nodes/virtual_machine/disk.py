"""The disk of a virtual machine: its system with the programs of a node and the images, unpacked. It is made once."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.testbed.binaries.build import minutes
from equipoise.testbed.binaries.toolchain import Progress, keep_newest, made_once
from equipoise.testbed.real_nodes import steps
from equipoise.testbed.real_nodes.tree import NODE_TREE, Tree, debian_tree
from equipoise.testbed.real_nodes.virtual_machine.systems import MachineSystem

TREE_SCRIPT = Path(__file__).with_name("tree.sh")
PACKAGES = ("dbus", "e2fsprogs", "systemd-sysv", "udev")
"""Besides those of a node: systemd, which starts the programs of the node."""

DISK_SCRIPT = Path(__file__).with_name("disk.sh")
POLICY = Path(__file__).with_name("policy.cil")
"""The rules of SELinux in addition to those of Debian. Only a disk with SELinux has them."""

SIZE = "6G"
"""The size of the file system. The file is as large as its contents, because it is sparse."""

DISKS_KEPT = 4
"""The number of disks in the cache. Every change of an image creates a new one of more than a gigabyte."""


@dataclass(frozen=True, kw_only=True)
class MachineDisk:
    """A folder with the disk, and the kernel and initial RAM disk with which QEMU boots it."""

    folder: Path
    system: MachineSystem

    @property
    def image(self) -> Path:
        return self.folder / "disk"

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"


def machine_tree(system: MachineSystem) -> Tree:
    """The root file system of a virtual machine."""
    return Tree(
        name="machine-tree",
        packages=(*NODE_TREE.packages, *sorted((*PACKAGES, *system.packages))),
        older_suites=system.older_suites,
        change=TREE_SCRIPT,
    )


def machine_disk(
    system: MachineSystem, programs: Path, archives: Sequence[Path], cache: Path, progress: Progress
) -> MachineDisk:
    """The disk in the cache. Raises BuildError.

    containerd unpacks the images here: in the virtual machine it would take minutes.
    """
    tree = machine_tree(system)
    root = debian_tree(tree, cache, progress)
    inputs = [
        tree.key(),
        SIZE,
        DISK_SCRIPT.read_text(),
        POLICY.read_text(),
        programs.name,
        *(archive.name for archive in archives),
    ]
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]
    began = time.monotonic()

    def make(folder: Path) -> None:
        progress.note("machine-disk: making the disk of a virtual machine, once")
        folder.mkdir()
        steps.run(
            "machine-disk",
            ["sh", DISK_SCRIPT],
            folder.parent,
            progress,
            TREE=str(root),
            PROGRAMS=str(programs),
            IMAGES=" ".join(map(str, archives)),
            POLICY=str(POLICY),
            SCRATCH=str(folder.parent),
            RESULT=str(folder),
            SIZE=SIZE,
        )
        progress.note(f"machine-disk: made in {minutes(time.monotonic() - began)}")

    folder = made_once(
        cache / f"machine-disk-{key}",
        make,
        lambda: progress.show(f"machine-disk: another process makes it, {minutes(time.monotonic() - began)}"),
    )
    os.utime(folder)
    keep_newest(cache, f"machine-disk-{'?' * len(key)}", DISKS_KEPT)
    return MachineDisk(folder=folder, system=system)
