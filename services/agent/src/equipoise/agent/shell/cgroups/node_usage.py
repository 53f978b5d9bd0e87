"""CPU time, CPUs and memory of the node, from /proc and /sys. In a container they are those of the node."""

import os
from contextlib import suppress

import msgspec

from equipoise.agent.decisions.cpu_sets import parse_cpus

_IDLE = (3, 4)
"""The positions of idle and iowait in a line of /proc/stat, after its name."""

_GUEST = 8
"""The position of the first time that is contained in the ones before, as all later ones are."""


_LONGEST_LINE = 4_096


class CpuTimes(msgspec.Struct, frozen=True):
    """Seconds of all CPUs since the boot."""

    busy: float
    idle: float
    """Idle, or waiting for I/O."""


class NodeMemory(msgspec.Struct, frozen=True):
    """Bytes."""

    total: float
    used: float
    """MemTotal − MemAvailable: what could not be given to a new process."""


def read_cpu_times(proc: str) -> CpuTimes | None:
    with suppress(OSError, ValueError, IndexError), open(f"{proc}/stat", encoding="ascii") as file:
        times = [int(word) for word in file.readline(_LONGEST_LINE).split()[1 : _GUEST + 1]]
        if len(times) <= max(_IDLE):
            return None
        idle = sum(times[place] for place in _IDLE)
        ticks = os.sysconf("SC_CLK_TCK")
        return CpuTimes(busy=(sum(times) - idle) / ticks, idle=idle / ticks)
    return None


def cores_in_use(capacity: float, busy: float | None, idle: float | None) -> float | None:
    """The cores of a node that are in use. `busy`, `idle`: seconds per second of all CPUs.

    The rest of the time was taken by a hypervisor that reports no steal time. No pod could have used it, so a node
    without idle time is full. Source: the percentages of top(1).
    """
    if busy is None or idle is None or busy + idle == 0:
        return None
    return capacity * busy / (busy + idle)


def read_memory(proc: str) -> NodeMemory | None:
    values: dict[str, float] = {}
    with suppress(OSError, ValueError), open(f"{proc}/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                values[name] = int(rest.split()[0]) * 1_024.0
            if len(values) == 2:
                return NodeMemory(total=values["MemTotal"], used=values["MemTotal"] - values["MemAvailable"])
    return None


def count_cpus(system: str) -> int:
    """The number of CPUs that are online; never 0."""
    with suppress(OSError, ValueError), open(f"{system}/devices/system/cpu/online", encoding="ascii") as file:
        return len(parse_cpus(file.read())) or 1
    return os.cpu_count() or 1


def read_siblings(system: str, cpus: frozenset[int]) -> list[frozenset[int]]:
    """The CPUs of each physical core; nothing where the kernel does not say."""
    cores = set()
    for cpu in cpus:
        path = f"{system}/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            cores.add(parse_cpus(file.read()))
    return list(cores)
