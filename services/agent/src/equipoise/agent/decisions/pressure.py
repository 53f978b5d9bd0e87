"""Whether latency-sensitive pods wait for CPU time, from the kernel's pressure stall information (PSI)."""

from collections.abc import Iterable

import msgspec


class PodPressure(msgspec.Struct, frozen=True):
    """The pressure on one latency-sensitive pod, since the last round."""

    waiting: float
    """Percent of the time in which a process of the pod was ready and had no CPU."""

    throttled: bool
    """Whether the pod's own quota stopped it. The kernel counts that as waiting too, but fewer batch pods would not
    help."""


def highest_pressure(pods: Iterable[PodPressure]) -> float | None:
    """The highest waiting time (percent) of the pods that are not stopped by their own quota. None: nothing is
    known."""
    waiting = [pod.waiting for pod in pods if not pod.throttled]
    return max(waiting, default=None)


def stalled_seconds(text: str) -> float | None:
    """The counter of `some` in a file `cpu.pressure`; None if it has none."""
    for line in text.splitlines():
        if line.startswith("some "):
            _, _, total = line.partition("total=")
            return int(total) / 1e6 if total.isdecimal() else None
    return None


def throttled_seconds(text: str) -> float:
    """The seconds of throttling in `cpu.stat` of either version; 0 without a quota."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "throttled_usec":
            return int(value) / 1e6
        if name == "throttled_time":
            return int(value) / 1e9
    return 0.0
