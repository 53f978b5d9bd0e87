"""Produces the messages of a collector for the simulated cluster: usage is averaged over windows, and has gaps."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from equipoise.collector.settings import ProfileSettings
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.lab.model.cluster_objects import node_labels
from equipoise.lab.model.cluster_usage import MIB, ClusterUsage, UsageCurves
from equipoise.lab.model.trace import Array, Trace, TraceWorkload

_HOURS = 24
_HOUR = 3_600.0
_NEW_DAY_WEIGHT = ProfileSettings().weight


def load_settings(tick: float, settings: LoadSettings | None = None) -> LoadSettings:
    """The settings of a collector that samples every `tick` seconds. Values remain fresh for two and a half ticks."""
    settings = settings or LoadSettings()
    windows = tuple(
        msgspec.structs.replace(window, refresh_period=Duration(max(window.refresh_period, tick)))
        for window in settings.windows
    )
    lifetimes = {name: Duration(max(getattr(settings.freshness, name), 2.5 * tick)) for name in ("score", "eviction")}
    freshness = msgspec.structs.replace(settings.freshness, **lifetimes)
    return msgspec.structs.replace(settings, windows=windows, freshness=freshness)


def workload_of(workload: TraceWorkload) -> Workload:
    return Workload(kind=workload.kind, group="apps", namespace=workload.namespace, name=workload.name)


def requests_of(workload: TraceWorkload) -> Resources:
    """The requests of a pod. A request of 0 in the trace means no request."""
    return Resources(
        cpu=workload.request_cpu_milli / 1_000.0 if workload.request_cpu_milli else None,
        memory=workload.request_memory_mib * MIB if workload.request_memory_mib else None,
    )


def limits_of(workload: TraceWorkload) -> Resources:
    return Resources(
        cpu=None if workload.limit_cpu_milli is None else workload.limit_cpu_milli / 1_000.0,
        memory=None if workload.limit_memory_mib is None else workload.limit_memory_mib * MIB,
    )


@dataclass
class SimulatedCollector:
    """Samples the simulated cluster and produces utilization and placement messages. Times are Unix seconds."""

    trace: Trace
    cluster: ClusterUsage
    curves: UsageCurves
    load: LoadSettings
    tick: float = field(kw_only=True)
    origin: float = field(kw_only=True)
    """Unix time of the start of the trace."""

    missing: float = field(kw_only=True)
    """Share (0..1) of the nodes without a sample in each round."""

    statistics: bool = field(default=False, kw_only=True)
    generator: np.random.Generator = field(kw_only=True)

    def __post_init__(self) -> None:
        nodes = self.trace.nodes
        self._bases = [Resources(cpu=float(cpu), memory=float(memory)) for cpu, memory in self.cluster.base]
        self._taints = [[Taint(key=t.key, value=t.value, effect=t.effect) for t in node.taints] for node in nodes]
        self.workloads = [workload_of(workload) for workload in self.trace.workloads]
        self._placed: list[dict[str, PlacedPod]] = [{} for _ in nodes]
        self._gone: list[list[GonePod]] = [[] for _ in nodes]
        self._rounds: deque[tuple[float, Array]] = deque()
        """Sample times, one tick apart, with the accumulated usage."""

        self._early: dict[str, tuple[float, Array]] = {}
        """The sample at the start of each window shorter than a tick, by window."""

        self._measured: dict[Workload, Resources] = {}
        self._measured_since = -math.inf
        """The latest start time (seconds) of pods that were measured in the last round."""

        self._sequence = 0
        self._published: dict[int, float] = {}
        """The time of the sample published last, by workload."""

        self._means: tuple[float, dict[str, Array]] = (-math.inf, {})
        """The time of a sample, and the means until then by window: workloads × (cores, bytes)."""

        self._profiles = np.zeros((len(self.workloads), _HOURS, len(RESOURCES)))
        """workloads × hours of the day in UTC × (cores, bytes)."""

    # state changes

    def start(self, now: float) -> None:
        """Fill all windows as if the cluster had not changed before `now` (seconds of the trace)."""
        rounds = int(self.load.longest.length // self.tick) + 1
        for back in range(rounds, 0, -1):
            self._rounds.append(self._before(now, back * self.tick))
        # The newest of these rounds is one tick before `now`.
        for window, length in self.early.items():
            self._early[window] = self._before(now, self.tick + length)
        for hour in range(_HOURS, 0, -1):
            start = now - hour * _HOUR
            self._profiles[:, self._slot(start)] = self.curves.mean(start, start + _HOUR)

    @property
    def started(self) -> bool:
        """Whether there are samples."""
        return bool(self._rounds)

    def _before(self, now: float, length: float) -> tuple[float, Array]:
        """A sample `length` seconds before `now`, with the current placement."""
        start = now - length
        return start, self.cluster.used - self.cluster.mean_usage(start, now) * length

    @property
    def early(self) -> dict[str, float]:
        """The length in seconds of each window that is shorter than a tick.

        Such a window needs an additional sample, this long before each round.
        """
        return {window.name: window.length for window in self.load.windows if window.length < self.tick}

    def on_placed(self, node: int, pod: PlacedPod) -> None:
        """A pod was placed on a node, or changed."""
        self._placed[node][pod.uid] = pod

    def on_gone(self, node: int, uid: str, now: float) -> None:
        pod = self._placed[node].pop(uid)
        if pod.running_since is not None:
            usage = self._measured_usage(pod)
            self._gone[node].append(converted(pod, GonePod, gone_at=self.origin + now, usage=usage))

    def _measured_usage(self, pod: PlacedPod) -> Resources:
        """The usage of a pod in the latest round; unknown if the pod had not run long enough to be measured."""
        if pod.workload is None or pod.running_since is None or pod.running_since > self._measured_since:
            return Resources()
        return self._measured[pod.workload]

    # messages

    def placement(self, node: int, now: float) -> NodePlacement:
        self._sequence += 1
        traced = self.trace.nodes[node]
        horizon = self.origin + now - self.load.longest.length
        self._gone[node] = [gone for gone in self._gone[node] if gone.gone_at > horizon]
        return NodePlacement(
            node=traced.name,
            uid=traced.name,
            labels=node_labels(traced),
            ready=True,
            allocatable=self._bases[node],
            capacity=self._bases[node],
            taints=self._taints[node],
            pod_capacity=traced.pods,
            pods=list(self._placed[node].values()),
            gone=list(self._gone[node]),
            epoch=1,
            sequence=self._sequence,
        )

    def sample(self, now: float) -> None:
        """Take a sample."""
        self.cluster.pass_time(now)
        self._rounds.append((now, self.cluster.used.copy()))
        horizon = now - self.load.longest.length - self.tick
        while self._rounds[0][0] < horizon:
            self._rounds.popleft()

    def sample_early(self, window: str, now: float) -> None:
        """Take the sample at the start of a short window."""
        self.cluster.pass_time(now)
        self._early[window] = now, self.cluster.used.copy()

    def _statistics(self, window: Window) -> dict[str, list[list[float]]]:
        """The mean and optional statistics of a window: nodes × (cores, bytes).

        Empty if samples do not cover the window.
        """
        sampled, newest = self._rounds[-1]
        start = sampled - window.length
        # Without a sample at its start, the window begins at the previous sample.
        before, older = self._early.get(window.name) or next(
            (sample for sample in reversed(self._rounds) if sample[0] <= start), self._rounds[0]
        )
        if (length := sampled - before) < self.load.coverage.window * window.length:
            return {}
        values = {"mean": (newest - older) / length}
        if self.statistics:
            used = np.array([sample for taken_at, sample in self._rounds if taken_at >= start - self.tick / 2])
            usage = np.diff(used, axis=0) / self.tick if len(used) > 1 else values["mean"][np.newaxis]
            values |= {
                "p95": np.percentile(usage, 95, axis=0),
                "max": usage.max(axis=0),
                "deviation": usage.std(axis=0),
            }
        return {name: array.tolist() for name, array in values.items()}

    def utilization_messages(self, queried_at: float) -> Iterator[NodeUtilization | UtilizationCycle]:
        """Messages for the newest sample, queried at `queried_at` (seconds of the trace); the cycle last."""
        sampled, _ = self._rounds[-1]
        at = self.origin + sampled
        means = {window.name: mean for window in self.load.windows if (mean := self._statistics(window))}
        shortest = self.load.shortest.length
        usage = self.curves.mean(sampled - shortest, sampled).tolist()
        per_pod = [Resources(cpu=cpu, memory=memory) for cpu, memory in usage]
        measured = self._measured = dict(zip(self.workloads, per_pod, strict=True))
        since = self._measured_since = at - self.load.coverage.window * shortest
        present = self.generator.random(len(self.trace.nodes)) >= self.missing
        self._sequence += 1
        for node in np.flatnonzero(present).tolist():
            windows = {
                name: WindowUsage(
                    sampled_at=at,
                    **{kind: Resources(cpu=rows[node][0], memory=rows[node][1]) for kind, rows in values.items()},
                )
                for name, values in means.items()
            }
            yield NodeUtilization(
                node=self.trace.nodes[node].name,
                uid=self.trace.nodes[node].name,
                base=self._bases[node],
                sampled_at=at,
                queried_at=self.origin + queried_at,
                windows=windows,
                system=Resources(cpu=0.0, memory=0.0),
                pods={
                    uid: measured[pod.workload]
                    for uid, pod in self._placed[node].items()
                    if pod.workload is not None and pod.running_since is not None and pod.running_since <= since
                },
                epoch=1,
                sequence=self._sequence,
            )
        yield UtilizationCycle(
            shard="0",
            cycle=self._sequence,
            expected=len(self.trace.nodes),
            fresh=int(present.sum()),
            queried_at=self.origin + queried_at,
            epoch=1,
            sequence=self._sequence,
        )

    def usage_of(self, workload: Workload) -> Resources:
        """Usage of one pod over the shortest window of the last round."""
        return self._measured.get(workload, Resources())

    def learn(self, now: float) -> None:
        """Merge the past hour into the daily profiles, with the weight of the collector."""
        slot = self._slot(now - _HOUR)
        mean = self.curves.mean(now - _HOUR, now)
        self._profiles[:, slot] += _NEW_DAY_WEIGHT * (mean - self._profiles[:, slot])

    def daily_profiles(self, *, since: float = -math.inf, now: float = 0.0) -> dict[Workload, Array]:
        """Daily profiles per replica: resources × hours of the day in UTC.

        Hours that ended before `since` are unknown: NaN.
        """
        profiles = self._profiles
        starts = [now - (hour + 1) * _HOUR for hour in range(_HOURS)]
        unknown = [self._slot(start) for start in starts if start < since]
        if unknown:
            profiles = profiles.copy()
            profiles[:, unknown] = np.nan
        return dict(zip(self.workloads, profiles.transpose(0, 2, 1), strict=True))

    def _slot(self, start: float) -> int:
        """The hour of the day in UTC of a time in seconds of the trace."""
        return int((self.origin + start) // _HOUR) % _HOURS

    def workload(self, number: int, now: float) -> WorkloadUtilization | None:
        """The message about a workload in the last round; None if it was already published."""
        sampled = self._rounds[-1][0]
        if self._published.get(number) == sampled:
            return None
        self._published[number] = sampled
        at = self.origin + sampled
        windows = {}
        if self._means[0] != sampled:
            starts = {window.name: sampled - window.length for window in self.load.windows}
            self._means = sampled, {name: self.curves.mean(start, sampled) for name, start in starts.items()}
        for name, means in self._means[1].items():
            cpu, memory = means[number].tolist()
            windows[name] = WindowUsage(sampled_at=at, mean=Resources(cpu=cpu, memory=memory))
        self._sequence += 1
        return WorkloadUtilization(
            workload=self.workloads[number],
            replicas=1,
            sampled_at=at,
            queried_at=self.origin + now,
            windows=windows,
            profile={name: self._profiles[number, :, resource].tolist() for resource, name in enumerate(RESOURCES)},
            epoch=1,
            sequence=self._sequence,
        )
