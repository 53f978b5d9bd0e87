"""Measures one round: CPU usage of the node and its groups, and the pressure of latency-sensitive pods."""

from collections.abc import Callable, Iterable

import msgspec

from equipoise.agent.decisions.pressure import PodPressure, highest_pressure, stalled_seconds, throttled_seconds
from equipoise.agent.decisions.suppression import CpuUsage
from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles
from equipoise.agent.shell.cgroups.cgroup_tree import CgroupTree, PodCgroup, PodGroups
from equipoise.agent.shell.cgroups.node_usage import cores_in_use, count_cpus, read_cpu_times
from equipoise.agent.state.rates import Rates

CONTAINERS_ROUNDS = 10
"""Rounds after which the containers of latency-sensitive pods are listed again: that takes longer than all the rest."""


class NodeMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement of one round."""

    capacity: float
    node: float | None
    pods: float | None
    best_effort: float | None
    pressure: float | None
    has_pressure: bool
    """Whether the kernel reports pressure by group; assumed to be true without latency-sensitive pods."""

    @property
    def usage(self) -> CpuUsage | None:
        """None: this is the first round, or counters cannot be read."""
        if self.node is None or self.pods is None or self.best_effort is None:
            return None
        return CpuUsage(
            capacity=self.capacity,
            node=self.node,
            pods=self.pods,
            best_effort=self.best_effort,
            pressure=self.pressure,
        )


class Meter:
    """Remembers the counters of the round before."""

    def __init__(
        self, tree: CgroupTree, files: CgroupFiles, *, proc: str, system: str, monotonic: Callable[[], float]
    ) -> None:
        self._tree = tree
        self._files = files
        self._monotonic = monotonic
        self._proc = proc
        self._system = system
        self._rates = Rates()
        self._containers: dict[str, list[str]] = {}
        self._rounds = 0

    def measure(self, groups: PodGroups) -> NodeMeasurement:
        """The measurement since the last call. Between two calls there should be one period."""
        if self._rounds % CONTAINERS_ROUNDS == 0:
            self._containers.clear()
        self._rounds += 1
        sensitive = [group for group in groups.pods.values() if group.qos != "besteffort"]
        pressures = [self._pressure(group) for group in sensitive]
        known = [each for each in pressures if each is not None]
        best_effort = 0.0 if groups.best_effort is None else self._cores(groups.best_effort)
        # Three pods suffice, even if one has just ended: the kernel reports pressure for all of them or for none.
        has_pressure = not sensitive or any(self._files.read(self._pressure_file(group)) for group in sensitive[:3])
        capacity, times = float(count_cpus(self._system)), read_cpu_times(self._proc)
        busy = self._rate("busy", None if times is None else times.busy)
        idle = self._rate("idle", None if times is None else times.idle)
        return NodeMeasurement(
            capacity=capacity,
            node=cores_in_use(capacity, busy, idle),
            pods=self._cores(groups.kubepods),
            best_effort=best_effort,
            pressure=highest_pressure(known),
            has_pressure=has_pressure,
        )

    def pod_cores(self, groups: Iterable[PodCgroup]) -> dict[str, float]:
        """CPU usage in cores by uid, of the pods that were measured in the last call too."""
        found = {group.uid: self._cores(group.path) for group in groups}
        return {uid: cores for uid, cores in found.items() if cores is not None}

    def pod_memory(self, groups: Iterable[PodCgroup]) -> dict[str, float]:
        """Bytes by uid that an eviction would release: page cache of files is not used memory."""
        found = {}
        for group in groups:
            text = self._files.read(f"{self._tree.hierarchy('memory')}/{group.path}/memory.stat")
            if text is not None:
                found[group.uid] = _anonymous(text)
        return found

    def forget_others(self) -> None:
        """Forgets what the round did not read, at its end."""
        self._rates.forget_others()
        self._files.close_unused()

    def _rate(self, key: str, counter: float | None) -> float | None:
        """The rate of a counter that has just been read.

        Rounds take time, and not always the same: if the rate used the time at which the round began, a pod that always
        waits could have a rate above 1.
        """
        return self._rates.rate(key, counter, self._monotonic())

    def _cores(self, path: str) -> float | None:
        return self._rate(path, self._cpu_seconds(path))

    def _cpu_seconds(self, path: str) -> float | None:
        if self._tree.version == 1:
            text = self._files.read(f"{self._tree.hierarchy('cpuacct')}/{path}/cpuacct.usage")
            return None if text is None else int(text) / 1e9
        text = self._files.read(f"{self._tree.hierarchy('cpu')}/{path}/cpu.stat")
        return None if text is None else int(_value(text, "usage_usec")) / 1e6

    def _pressure_file(self, group: PodCgroup) -> str:
        return f"{self._tree.pressure_hierarchy}/{group.path}/cpu.pressure"

    def _pressure(self, group: PodCgroup) -> PodPressure | None:
        text = self._files.read(self._pressure_file(group))
        waiting = self._rate(f"pressure {group.path}", stalled_seconds(text) if text else None)
        throttled = self._rate(f"throttled {group.path}", self._throttled(group))
        # The process may be interrupted between the counter and the clock.
        return None if waiting is None else PodPressure(min(waiting, 1.0) * 100, bool(throttled))

    def _throttled(self, group: PodCgroup) -> float:
        """Seconds of throttling of the pod and its containers: a container's quota stops it before that of the pod."""
        if group.path not in self._containers:
            self._containers[group.path] = self._tree.containers("cpu", group.path)
        texts = (
            self._files.read(f"{self._tree.hierarchy('cpu')}/{path}/cpu.stat")
            for path in (group.path, *self._containers[group.path])
        )
        return sum(throttled_seconds(text) for text in texts if text is not None)


def _value(text: str, name: str) -> str:
    for line in text.splitlines():
        found, _, value = line.partition(" ")
        if found == name:
            return value
    return "0"


def _anonymous(text: str) -> float:
    """Bytes of anonymous memory of a pod with its containers. v1 has these totals under names of their own."""
    values = dict(line.partition(" ")[::2] for line in text.splitlines())
    if "anon" in values:
        return float(values["anon"]) + float(values.get("shmem", 0))
    return float(values.get("total_rss", 0)) + float(values.get("total_shmem", 0))
