"""Debian root file systems, from which nodes and images are made. mmdebstrap makes each of them once."""

import hashlib
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from equipoise.testbed.binaries.build import minutes
from equipoise.testbed.binaries.toolchain import Progress, made_once
from equipoise.testbed.real_nodes import steps

SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A Debian root file system with some packages. The shell script `change` gets its folder and changes it."""

    name: str
    packages: tuple[str, ...]
    excluded: tuple[str, ...] = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
    change: Path | None = None
    older_suites: tuple[str, ...] = ()
    """Older Debians, for packages that are named as `package/suite`."""

    def key(self) -> str:
        """The cache key: a hash of all inputs except the versions of Debian's packages."""
        change = self.change.read_text() if self.change else ""
        words = [SUITE, *self.packages, *self.excluded, change, *self.older_suites]
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


NODE_TREE = Tree(
    name="node-tree",
    packages=(
        "busybox-static", "ca-certificates", "conntrack", "containerd", "containernetworking-plugins", "ethtool",
        "iproute2", "iptables", "kmod", "mount", "nftables", "procps", "runc", "socat", "util-linux",
    ),
)  # fmt: skip
"""Debian's containerd is 1.7. From Kubernetes 1.38 on, the kubelet requires containerd 2."""

BASE_TREE = Tree(
    name="base-tree",
    packages=("ca-certificates", "python3", "python3-venv"),
    change=Path(__file__).with_name("base-image.sh"),
)
"""The tree of the image `python:3.13-slim`: Debian's Python in /usr/local, with pip."""


def debian_tree(tree: Tree, cache: Path, progress: Progress) -> Path:
    """The folder of the tree in the cache. Raises BuildError."""
    began = time.monotonic()

    def make(folder: Path) -> None:
        progress.note(f"{tree.name}: fetching Debian's packages, once")
        # The script is run by sh because a wheel does not keep its permission to be executed.
        hooks = [f'--customize-hook=sh {shlex.quote(str(tree.change))} "$1"'] if tree.change else []
        for suite in tree.older_suites:
            source = f"deb {MIRROR} {suite} main"
            hooks.append(f'--setup-hook=echo "{source}" > "$1/etc/apt/sources.list.d/{suite}.list"')
        steps.run(
            tree.name,
            [
                "mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory",
                '--aptopt=Acquire::Languages "none"', *(f"--dpkgopt=path-exclude={path}" for path in tree.excluded),
                f"--include={','.join(tree.packages)}", *hooks, SUITE, folder,
            ],
            folder.parent,
            progress,
        )  # fmt: skip

    return made_once(
        cache / f"{tree.name}-{tree.key()}",
        make,
        lambda: progress.show(f"{tree.name}: another process makes it, {minutes(time.monotonic() - began)}"),
    )
