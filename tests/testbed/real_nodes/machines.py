"""What real nodes need is there already, and what a machine looks like without them."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from equipoise.testbed.binaries.build import COREDNS, NODE, default_cache
from equipoise.testbed.real_nodes.leftovers import PREFIX, has_ended
from equipoise.testbed.real_nodes.requirements import CGROUPS, RealNodesError, check_machine
from equipoise.testbed.real_nodes.tree import NODE_TREE

SMALL_IMAGES = ("pause", "busybox", "nats")


def skip_without_cache() -> None:
    """`make test` builds nothing for real nodes."""
    try:
        check_machine()
    except RealNodesError as error:
        pytest.skip(str(error))
    cache = default_cache()
    wanted = [
        f"node-{NODE.key()}",
        f"coredns-{COREDNS.key()}",
        f"{NODE_TREE.name}-{NODE_TREE.key()}",
        *(f"image-{each}-*.tar" for each in SMALL_IMAGES),
    ]
    if absent := [each for each in wanted if not any(cache.glob(each))]:
        pytest.skip(f"`equipoise testbed up --real-nodes 1` has not built {', '.join(absent)} yet")


def machine_state() -> dict[str, frozenset[str]]:
    """Everything of the machine that a cluster with real nodes could change."""
    sysctls = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/mounts").read_text()
    return {
        "cgroups": frozenset(str(path) for path in CGROUPS.glob(f"*/{PREFIX}*")),
        "folders": frozenset(map(str, Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))),
        "mounts": frozenset(line for line in mounts.splitlines() if PREFIX in line or "overlay" in line),
        "interfaces": frozenset(os.listdir("/sys/class/net")),
        "namespaces": frozenset(namespaces.splitlines()),
        "sysctls": frozenset(f"{name} {Path('/proc/sys', name).read_text()}" for name in sysctls),
    }


def added(before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What is there now and was not before. Other clusters may run on the machine, and end."""
    return {name: found - before[name] for name, found in after.items() if found - before[name]}


def left_over(before: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What a cluster that has ended left. Clusters of other processes may have begun since."""
    found = {name: frozenset(filter(_is_left, texts)) for name, texts in added(before, machine_state()).items()}
    return {name: texts for name, texts in found.items() if texts}


def _is_left(text: str) -> bool:
    owner = re.search(rf"{PREFIX}-\d+-\d+", text)
    return owner is None or has_ended(owner[0])
