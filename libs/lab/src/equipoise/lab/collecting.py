"""What Prometheus and the collector would have told of the world: with lag, over windows, and with gaps."""

import math
from collections import deque
from collections.abc import Iterator

import msgspec
import numpy as np

from equipoise.contracts.load import RESOURCES
from equipoise.contracts.messages import (
    GonePod,
    NodePlacement,
    NodeUtilization,
    PlacedPod,
    Resources,
    Taint,
    UtilizationCycle,
    WindowUsage,
    WorkloadUtilization,
)
from equipoise.contracts.settings import Freshness, LoadSettings
from equipoise.contracts.workload import Workload
from equipoise.lab.trace import Array, Trace, TraceWorkload
from equipoise.lab.world import MIB, Curves, World

_HOURS = 24
_HOUR = 3_600.0
_SMOOTHING = 0.3
"""Weight of a new day in a profile (design, section 3)."""

_COVERED = 0.8
"""Share of a window that samples must cover (design, law 1)."""


def load_settings(tick: float, settings: LoadSettings | None = None) -> LoadSettings:
    """The settings with every window that a round each `tick` seconds can fill; values live as long as two rounds.

    A trace of 15-minute steps cannot fill a window of 5 minutes.
    """
    settings = settings or LoadSettings()
    windows = tuple(
        msgspec.structs.replace(window, refresh_period=type(window.refresh_period)(max(window.refresh_period, tick)))
        for window in settings.windows
        if window.length >= tick
    )
    if not windows:
        raise ValueError(f"load.windows: none is as long as a step of the trace ({tick:g} s)")
    life = type(settings.freshness.score)(max(settings.freshness.score, 2.5 * tick))
    eviction = type(settings.freshness.eviction)(max(settings.freshness.eviction, 2.5 * tick))
    freshness: Freshness = msgspec.structs.replace(settings.freshness, score=life, eviction=eviction)
    return msgspec.structs.replace(settings, windows=windows, freshness=freshness)


def workload_of(workload: TraceWorkload) -> Workload:
    return Workload(kind=workload.kind, group="apps", namespace=workload.namespace, name=workload.name)


def requests_of(workload: TraceWorkload) -> Resources:
    """What is not asked for is unknown, as in a Pod."""
    return Resources(
        cpu=workload.request_cpu_milli / 1_000.0 if workload.request_cpu_milli else None,
        memory=workload.request_memory_mib * MIB if workload.request_memory_mib else None,
    )


def limits_of(workload: TraceWorkload) -> Resources:
    return Resources(
        cpu=None if workload.limit_cpu_milli is None else workload.limit_cpu_milli / 1_000.0,
        memory=None if workload.limit_memory_mib is None else workload.limit_memory_mib * MIB,
    )


class Collector:
    """Takes samples of the world, round by round, and says what follows from them. Times are Unix seconds.

    `origin`: the Unix second at which the trace begins. `missing`: share (0..1) of a round's nodes without a sample.
    """

    def __init__(
        self,
        trace: Trace,
        world: World,
        curves: Curves,
        load: LoadSettings,
        *,
        tick: float,
        origin: float,
        missing: float,
        chance: np.random.Generator,
    ) -> None:
        self._world = world
        self._curves = curves
        self._load = load
        self._tick = tick
        self._origin = origin
        self._missing = missing
        self._chance = chance
        self._names = [node.name for node in trace.nodes]
        self._bases = [Resources(cpu=float(cpu), memory=float(memory)) for cpu, memory in world.base]
        self._taints = [[Taint(key=t.key, value=t.value, effect=t.effect) for t in node.taints] for node in trace.nodes]
        self._pod_capacity = [node.pods for node in trace.nodes]
        self.workloads = [workload_of(workload) for workload in trace.workloads]
        self._placed: list[dict[str, PlacedPod]] = [{} for _ in trace.nodes]
        self._gone: list[list[GonePod]] = [[] for _ in trace.nodes]
        self._samples: deque[tuple[float, Array]] = deque()
        self._measured: dict[Workload | None, Resources] = {}
        self._sequence = 0
        self._told: dict[int, float] = {}
        """By workload: the sample that was last told of."""

        self._means: tuple[float, dict[str, Array]] = (-math.inf, {})
        """Of a sample, by window: workloads × (cores, bytes)."""

        self._profiles = np.zeros((len(self.workloads), _HOURS, len(RESOURCES)))
        """workloads × hours of the day in UTC × (cores, bytes)."""

    # what happens

    def begin(self, now: float) -> None:
        """Before `now` (seconds of the trace) the world was as it is: as long as the longest window looks back."""
        rounds = int(self._load.longest.length // self._tick) + 1
        for back in range(rounds, 0, -1):
            length = back * self._tick
            self._samples.append((now - length, self._world.used - self._world.mean_usage(now - length, now) * length))
        for hour in range(_HOURS, 0, -1):
            begin = now - hour * _HOUR
            self._profiles[:, self._slot(begin)] = self._curves.mean(begin, begin + _HOUR)

    def on_placed(self, node: int, pod: PlacedPod) -> None:
        """A pod came to a node, or something about it changed."""
        self._placed[node][pod.uid] = pod

    def on_gone(self, node: int, uid: str, now: float) -> None:
        pod = self._placed[node].pop(uid)
        if pod.running_since is not None:
            self._gone[node].append(
                GonePod(
                    uid=uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    workload=pod.workload,
                    running_since=pod.running_since,
                    gone_at=self._origin + now,
                    requests=pod.requests,
                    limits=pod.limits,
                )
            )

    # what is told

    def placement(self, node: int, now: float) -> NodePlacement:
        self._sequence += 1
        horizon = self._origin + now - self._load.longest.length
        self._gone[node] = [gone for gone in self._gone[node] if gone.gone_at > horizon]
        return NodePlacement(
            node=self._names[node],
            uid=self._names[node],
            ready=True,
            allocatable=self._bases[node],
            capacity=self._bases[node],
            taints=self._taints[node],
            pod_capacity=self._pod_capacity[node],
            pods=list(self._placed[node].values()),
            gone=list(self._gone[node]),
            epoch=1,
            sequence=self._sequence,
        )

    def sample(self, now: float) -> None:
        """Look at the world."""
        self._world.pass_time(now)
        self._samples.append((now, self._world.used.copy()))
        horizon = now - self._load.longest.length - self._tick
        while self._samples[0][0] < horizon:
            self._samples.popleft()

    def utilizations(self, asked_at: float) -> Iterator[NodeUtilization | UtilizationCycle]:
        """What the newest sample comes to, asked for at `asked_at` (seconds of the trace); a round's end last."""
        sampled, newest = self._samples[-1]
        at = self._origin + sampled
        means = {}
        for window in self._load.windows:
            begin = sampled - window.length
            before, older = next(sample for sample in self._samples if sample[0] >= begin)
            if (length := sampled - before) >= _COVERED * window.length:
                means[window.name] = ((newest - older) / length).tolist()
        shortest = self._load.shortest.length
        measured = self._measured = self._per_pod(sampled - shortest, sampled)
        since = at - _COVERED * shortest
        present = self._chance.random(len(self._names)) >= self._missing
        self._sequence += 1
        for node in np.flatnonzero(present).tolist():
            windows = {
                name: WindowUsage(sampled_at=at, mean=Resources(cpu=rows[node][0], memory=rows[node][1]))
                for name, rows in means.items()
            }
            yield NodeUtilization(
                node=self._names[node],
                uid=self._names[node],
                base=self._bases[node],
                sampled_at=at,
                queried_at=self._origin + asked_at,
                windows=windows,
                system=Resources(cpu=0.0, memory=0.0),
                pods={uid: measured[pod.workload] for uid, pod in self._placed[node].items() if _covered(pod, since)},
                epoch=1,
                sequence=self._sequence,
            )
        yield UtilizationCycle(
            shard="0",
            cycle=self._sequence,
            expected=len(self._names),
            fresh=int(present.sum()),
            queried_at=self._origin + asked_at,
            epoch=1,
            sequence=self._sequence,
        )

    def usage_of(self, workload: Workload | None) -> Resources:
        """What one of its pods used over the shortest window of the last round."""
        return self._measured.get(workload, Resources())

    def _per_pod(self, begin: float, end: float) -> dict[Workload | None, Resources]:
        """What one pod of each workload used on average."""
        rows = self._curves.mean(begin, end).tolist()
        return {
            workload: Resources(cpu=cpu, memory=memory)
            for workload, (cpu, memory) in zip(self.workloads, rows, strict=True)
        }

    def learn(self, now: float) -> None:
        """An hour is over: it goes into the profiles as the collector smooths them."""
        slot = self._slot(now - _HOUR)
        mean = self._curves.mean(now - _HOUR, now)
        self._profiles[:, slot] += _SMOOTHING * (mean - self._profiles[:, slot])

    def _slot(self, begin: float) -> int:
        """The hour of the day, in UTC."""
        return int((self._origin + begin) // _HOUR) % _HOURS

    def workload(self, number: int, now: float) -> WorkloadUtilization | None:
        """A workload as of the last round; None when it was told since."""
        sampled = self._samples[-1][0]
        if self._told.get(number) == sampled:
            return None
        self._told[number] = sampled
        at = self._origin + sampled
        windows = {}
        if self._means[0] != sampled:
            begins = {window.name: sampled - window.length for window in self._load.windows}
            self._means = sampled, {name: self._curves.mean(begin, sampled) for name, begin in begins.items()}
        for name, means in self._means[1].items():
            cpu, memory = means[number].tolist()
            windows[name] = WindowUsage(sampled_at=at, mean=Resources(cpu=cpu, memory=memory))
        self._sequence += 1
        return WorkloadUtilization(
            workload=self.workloads[number],
            replicas=1,
            sampled_at=at,
            queried_at=self._origin + now,
            windows=windows,
            profile={name: self._profiles[number, :, resource].tolist() for resource, name in enumerate(RESOURCES)},
            epoch=1,
            sequence=self._sequence,
        )


def _covered(pod: PlacedPod, since: float) -> bool:
    return pod.running_since is not None and pod.running_since <= since
