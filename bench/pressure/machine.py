"""What the kernel counts of the machine, and of the groups of its pods."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

RESOURCES = ("cpu", "memory", "io")
PROC = Path("/proc")


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since some time in the past. Pods are those of `Pods.pids`."""

    at: float
    busy: float
    """Seconds of all CPUs that were used."""

    waiting: dict[str, float]
    """Seconds in which a process of the machine waited, by resource."""

    cpu: dict[str, float]
    """Seconds of CPU of each pod."""

    pods_waiting: dict[str, dict[str, float]]
    """Seconds in which a process of each pod waited, by resource."""

    periods: dict[str, tuple[float, float]]
    """The throttled periods and all periods of each pod."""

    disk: dict[str, float]
    """Bytes that each pod has read from and written to disks."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of two counters per second: shares of time, cores and bytes."""

    utilization: float
    """0..1 of all CPUs."""

    waiting: dict[str, float]
    cpu: dict[str, float]
    pods_waiting: dict[str, dict[str, float]]
    throttled: dict[str, float]
    disk: dict[str, float]


def read_counters(top: str, pids: Mapping[str, Sequence[int]]) -> Counters:
    """The counters now. `top`: the group above those of the pods; `pids`: the processes of each pod."""
    groups, ticks = Path("/sys/fs/cgroup"), float(os.sysconf("SC_CLK_TCK"))
    values = [float(value) / ticks for value in (PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    throttled: dict[str, tuple[float, float]] = {}
    for pod in pids:
        lines = (groups / "cpu" / top / pod / "cpu.stat").read_text().splitlines()
        stat = {name: float(value) for name, value in (line.split() for line in lines)}
        throttled[pod] = (stat["nr_throttled"], stat["nr_periods"])
    return Counters(
        at=time.monotonic(),
        busy=sum(values) - values[3] - values[4],  # without idle and iowait
        waiting={name: _waiting(PROC / "pressure" / name) for name in RESOURCES},
        cpu={pod: float((groups / "cpuacct" / top / pod / "cpuacct.usage").read_text()) / 1e9 for pod in pids},
        pods_waiting={
            pod: {name: _waiting(groups / "unified" / top / pod / f"{name}.pressure") for name in RESOURCES}
            for pod in pids
        },
        periods=throttled,
        disk={pod: sum(map(_disk, processes)) for pod, processes in pids.items()},
    )


def _waiting(file: Path) -> float:
    """The seconds of `some` in a file with pressure."""
    line = next(line for line in file.read_text().splitlines() if line.startswith("some"))
    return float(line.rpartition("total=")[2]) / 1e6


def _disk(pid: int) -> float:
    fields = dict(line.split(": ") for line in (PROC / str(pid) / "io").read_text().splitlines())
    return float(fields["read_bytes"]) + float(fields["write_bytes"])


def measured(before: Counters, after: Counters, cores: int) -> Measured:
    """What happened between two readings of the same pods."""
    seconds = after.at - before.at
    throttled = {}
    for pod, (stopped, periods) in after.periods.items():
        all_periods = periods - before.periods[pod][1]
        throttled[pod] = (stopped - before.periods[pod][0]) / all_periods if all_periods else 0.0
    return Measured(
        utilization=(after.busy - before.busy) / seconds / cores,
        waiting=_shares(before.waiting, after.waiting, seconds),
        cpu={pod: (value - before.cpu[pod]) / seconds for pod, value in after.cpu.items()},
        pods_waiting={
            pod: _shares(before.pods_waiting[pod], of_pod, seconds) for pod, of_pod in after.pods_waiting.items()
        },
        throttled=throttled,
        disk={pod: (value - before.disk[pod]) / seconds for pod, value in after.disk.items()},
    )


def _shares(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    return {name: min(1.0, (value - before[name]) / seconds) for name, value in after.items()}
