"""A network namespace of this process, with a bridge for nodes. The kernel removes it when its last process ends."""

import ctypes
import os
import subprocess
from pathlib import Path

from equipoise.testbed.real_nodes.addresses import BRIDGE, HUB, HUB_PREFIX, node_address, pod_range
from equipoise.testbed.real_nodes.requirements import RealNodesError, search_path

CLONE_NEWNET = 0x40000000
"""The flag of linux/sched.h. `os.unshare` exists from Python 3.12 on."""


def enter_private_network(nodes: int) -> Path:
    """Move this thread to a new network namespace; returns the namespace's file, with which processes can enter it.

    Threads and processes that this thread starts later are in the namespace too. Threads that already run are not, so
    call this function before any other thread starts.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise RealNodesError(f"no network namespace could be made: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{HUB}/{HUB_PREFIX}", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    for number in range(1, nodes + 1):
        ip("route", "add", pod_range(number), "via", node_address(number))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    return Path(f"/proc/{os.getpid()}/ns/net")


def ip(*arguments: str) -> None:
    result = subprocess.run(
        ["ip", *arguments], env={"PATH": search_path()}, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise RealNodesError(f"`ip {' '.join(arguments)}` failed: {result.stderr.strip()}")
