"""The real usage of the simulated cluster: which pods run on which node, and what nodes use.

Usage is constant within a step of the trace, so the usage of a node over any time is an exact sum.
"""

import numpy as np
import numpy.typing as npt

from equipoise.lab.model.trace import Array, Trace

MIB = 2.0**20


class UsageCurves:
    """The usage of one pod of each workload at any time. The trace repeats."""

    def __init__(self, trace: Trace) -> None:
        self.step_seconds = trace.seconds_per_step
        self.length = trace.steps * trace.seconds_per_step
        self.values = np.stack([trace.cpu_milli / 1_000.0, trace.memory_mib * MIB], axis=2)
        """workloads × steps × (cores, bytes)."""

        sums = np.cumsum(self.values, axis=1) * trace.seconds_per_step
        self._sums = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
        """workloads × (steps + 1) × (core seconds, byte seconds)."""

    def at(self, now: float) -> Array:
        """workloads × (cores, bytes) at `now`, in seconds since the start of the trace."""
        values: Array = self.values[:, int(now % self.length // self.step_seconds)]
        return values

    def mean(self, start: float, end: float) -> Array:
        """workloads × (cores, bytes): mean usage of one pod between two times."""
        mean: Array = (self._until(end) - self._until(start)) / (end - start)
        return mean

    def _until(self, now: float) -> Array:
        rounds, remainder = divmod(now, self.length)
        step, elapsed = divmod(remainder, self.step_seconds)
        until: Array = rounds * self._sums[:, -1] + self._sums[:, int(step)] + elapsed * self.values[:, int(step)]
        return until


class ClusterUsage:
    """The usage of nodes and the node of each pod. Both are known by their index; −1 is no node."""

    def __init__(self, trace: Trace, curves: UsageCurves, *, now: float = 0.0) -> None:
        self._curves = curves
        self.base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
        """nodes × (cores, bytes)."""

        self.workload: list[int] = []
        self._node: list[int] = []
        self.usage = np.zeros_like(self.base)
        """nodes × (cores, bytes): the present usage."""

        self.used = np.zeros_like(self.base)
        """nodes × (core seconds, byte seconds) since the first `now`."""

        self._memory_peak = np.zeros(len(self.base))
        """nodes × bytes: the highest memory usage since `take_memory_peak`."""

        self.lost = 0.0
        """Core seconds of demand above the capacity of the nodes."""

        self._at = now

    def add_pod(self, workload: int) -> int:
        """Add a pod, which does not run yet."""
        self.workload.append(workload)
        self._node.append(-1)
        return len(self.workload) - 1

    def start(self, pod: int, node: int, now: float) -> None:
        self.pass_time(now)
        self._node[pod] = node
        self.usage[node] += self._curves.at(now)[self.workload[pod]]

    def stop(self, pod: int, now: float) -> None:
        node = self._node[pod]
        if node < 0:
            return
        self.pass_time(now)
        self._node[pod] = -1
        self.usage[node] -= self._curves.at(now)[self.workload[pod]]

    def step(self, now: float) -> None:
        """Start a new step of the trace."""
        self.pass_time(now)
        self.usage = self.usage_at(now)

    def usage_at(self, now: float) -> Array:
        """nodes × (cores, bytes) at this time with the current placement."""
        return self._by_node(self._curves.at(now))

    def mean_usage(self, start: float, end: float) -> Array:
        """The mean of `usage_at` between two times."""
        return self._by_node(self._curves.mean(start, end))

    def _by_node(self, per_pod: Array) -> Array:
        node, workload = np.array(self._node, np.intp), np.array(self.workload, np.intp)
        running = node >= 0
        used: npt.NDArray[np.intp] = workload[running]
        return np.stack(
            [
                np.bincount(node[running], weights=per_pod[used, resource], minlength=len(self.base))
                for resource in range(self.base.shape[1])
            ],
            axis=1,
        )

    def pass_time(self, now: float) -> None:
        """Accumulate usage until `now`."""
        passed = now - self._at
        if passed > 0.0:
            self.used += self.usage * passed
            np.maximum(self._memory_peak, self.usage[:, 1], out=self._memory_peak)
            self.lost += float(np.maximum(self.usage[:, 0] - self.base[:, 0], 0.0).sum()) * passed
            self._at = now

    def take_memory_peak(self) -> Array:
        """The highest memory usage of each node (bytes) since the last call, until the last `pass_time`."""
        peak, self._memory_peak = self._memory_peak, np.zeros(len(self.base))
        return peak
