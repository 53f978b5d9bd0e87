"""The agent: one round per period, from measurement to limits and evictions."""

import time
from collections.abc import Callable, Mapping

import msgspec

from equipoise.agent.decisions.band_pods import within_node
from equipoise.agent.decisions.evictions import (
    Victim,
    cpu_to_release,
    cpu_victims,
    memory_to_release,
    memory_victims,
    requested_cores,
)
from equipoise.agent.decisions.pod_values import pod_values
from equipoise.agent.decisions.suppression import MIN_CPUS, CpuLimit, next_limit
from equipoise.agent.settings import AgentSettings
from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles
from equipoise.agent.shell.cgroups.cgroup_tree import CgroupTree, PodCgroup, PodGroups
from equipoise.agent.shell.cgroups.limit_writer import LimitWriter
from equipoise.agent.shell.cgroups.measurement import Meter, NodeMeasurement
from equipoise.agent.shell.cgroups.node_usage import read_memory
from equipoise.agent.shell.cgroups.shared_limit import SharedLimit
from equipoise.agent.shell.evictor import Evictor
from equipoise.agent.shell.health import AgentHealth
from equipoise.agent.shell.metrics import Metrics
from equipoise.agent.state.watched_pods import BandPod, WatchedPods

LONGEST_END = 120.0
"""Seconds for which the resources of a terminating pod count as released: its owner chooses its grace period and
finalizers, so it may run for much longer."""

BANDS = ("mid", "batch", "free")


class Agent:
    """Applies limits and evicts pods on one node. Times are monotonic seconds."""

    def __init__(
        self,
        settings: AgentSettings,
        pods: WatchedPods,
        evictor: Evictor,
        health: AgentHealth,
        metrics: Metrics,
        *,
        proc: str = "/proc",
        system: str = "/sys",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`monotonic`: the clock of `round`."""
        self._settings = settings
        self._pods = pods
        self._evictor = evictor
        self._health = health
        self._metrics = metrics
        self._proc = proc
        self._tree = CgroupTree(settings.cgroup_root, settings.cgroup_parent)
        self._files = CgroupFiles()
        self._meter = Meter(self._tree, self._files, proc=proc, system=system, monotonic=monotonic)
        self._writer = LimitWriter(self._tree, self._files)
        self._shared = SharedLimit(settings.suppression.policy, self._writer, system)
        self._limit: CpuLimit | None = None
        """The current limit; None before the first round."""

        self._round_at: float | None = None
        self._unsatisfied_since: float | None = None
        self._terminating_since: dict[str, float] = {}

    def round(self, now: float) -> None:
        """Measures, writes the limits that have changed, and evicts.

        While the API server does not answer, the pods are those last known. The agent uses neither the bus nor the
        reclaimer.
        """
        groups = self._tree.groups()
        self._health.set_problem("kubepods", None if groups else self._no_groups())
        pods = self._pods.by_uid
        self._health.pods_known = pods is not None
        if groups is None:
            return
        measurement = self._meter.measure(groups)
        # A pod counts only while the node has its group: a pod that exists only in the API server affects no others.
        present = {uid: pod for uid, pod in (pods or {}).items() if uid in groups.pods}
        present = within_node(present, measurement.capacity)
        self._writer.begin_round()
        limit = self._write(groups, present, measurement)
        self._report(present, measurement, limit, now)
        if pods is not None:
            self._evict(groups, present, measurement, limit, now)
        self._meter.forget_others()
        self._round_at = now

    def restore(self) -> None:
        """Restores the values that the kubelet set."""
        groups = self._tree.groups()
        if groups is not None:
            self._writer.begin_round()
            self._writer.restore(groups, [group for group, _ in limited(groups, self._pods.by_uid or {})])
            self._report_writes()

    def close(self) -> None:
        """Closes the files of the cgroups, which keep their limits."""
        self._files.close()

    def _write(self, groups: PodGroups, pods: Mapping[str, BandPod], measurement: NodeMeasurement) -> CpuLimit:
        if self._limit is None:
            self._shared.lift_others(groups)
            self._limit = self._shared.current_limit(groups)
        before = self._limit
        usage = measurement.usage
        target = before if usage is None else next_limit(self._settings.suppression, usage, before)
        values = [(group, pod_values(pod)) for group, pod in limited(groups, pods)]
        self._limit = self._shared.write(groups, values, target, before, measurement.capacity)
        self._report_writes()
        return self._limit

    # Evictions

    def _evict(
        self, groups: PodGroups, pods: Mapping[str, BandPod], measurement: NodeMeasurement, limit: CpuLimit, now: float
    ) -> None:
        unavailable = self._evictor.unavailable()
        self._terminating_since = {
            uid: self._terminating_since.get(uid, now) for uid, pod in pods.items() if pod.terminating
        }
        present = {
            uid: msgspec.structs.replace(
                pod,
                evictable=pod.evictable and not pod.terminating and uid not in unavailable,
                terminating=pod.terminating and now - self._terminating_since[uid] < LONGEST_END,
            )
            for uid, pod in pods.items()
        }
        memory, cpu = self._settings.memory_eviction, self._settings.cpu_eviction
        victims = self._memory_victims(groups, present)
        if self._evictor.may_evict("memory"):
            self._evictor.start(victims, memory.cooldown)
        victims = self._cpu_victims(groups, present, measurement, limit, now)
        if self._evictor.may_evict("cpu"):
            self._evictor.start(victims, cpu.cooldown)

    def _memory_victims(self, groups: PodGroups, pods: Mapping[str, BandPod]) -> list[Victim]:
        rules, memory = self._settings.memory_eviction, read_memory(self._proc)
        used = None if memory is None else memory.used / memory.total
        self._metrics.set("equipoise_agent_memory_used_ratio", used)
        if memory is None or not memory_to_release(rules, memory.used, memory.total):
            return []
        usage = self._meter.pod_memory(groups.pods[uid] for uid in pods)
        return memory_victims(rules, memory.used, memory.total, pods, usage)

    def _cpu_victims(
        self, groups: PodGroups, pods: Mapping[str, BandPod], measurement: NodeMeasurement, limit: CpuLimit, now: float
    ) -> list[Victim]:
        rules, used = self._settings.cpu_eviction, measurement.best_effort
        if rules.satisfaction_lower is None or used is None:
            return []
        usage = self._meter.pod_cores(groups.pods[uid] for uid in pods)
        if not cpu_to_release(rules, limit.cores, requested_cores(pods), used):
            self._unsatisfied_since = None
            return []
        self._unsatisfied_since = self._unsatisfied_since or now
        if now - self._unsatisfied_since < rules.window:
            return []
        return cpu_victims(rules, limit.cores, used, pods, usage)

    # Metrics and problems

    def _report(self, pods: Mapping[str, BandPod], measurement: NodeMeasurement, limit: CpuLimit, now: float) -> None:
        metrics, rules = self._metrics, self._settings.suppression
        for group, cores in (
            ("node", measurement.node),
            ("pods", measurement.pods),
            ("best_effort", measurement.best_effort),
        ):
            metrics.set("equipoise_agent_cpu_usage_cores", cores, group=group)
        pressure = measurement.pressure
        metrics.set("equipoise_agent_pressure_ratio", None if pressure is None else pressure / 100)
        metrics.set("equipoise_agent_cpu_limit_cores", limit.cores)
        metrics.set("equipoise_agent_cpu_requested_cores", requested_cores(pods))
        for band in BANDS:
            metrics.set("equipoise_agent_pods", sum(pod.band == band for pod in pods.values()), band=band)
        if limit.cores is not None and self._round_at is not None:
            metrics.add("equipoise_agent_suppressed_seconds_total", now - self._round_at, reason=limit.reason)
        watched = rules.policy != "off" and rules.pressure_threshold is not None
        problem = None
        if watched and not measurement.has_pressure:
            problem = (
                "the kernel does not report pressure by group, so that only suppression.cpuThreshold can limit batch "
                "pods: boot with psi=1, on cgroup v2, or set suppression.pressureThreshold: null"
            )
        self._health.set_problem("pressure", problem)
        cpus = self._shared.too_few_cpus
        problem = (
            f"suppression.policy cpuset limits nothing here: best-effort pods keep at least {MIN_CPUS} CPUs, and all "
            f"pods share {cpus} on this node. Set agent.suppression.policy: quota"
        )
        self._health.set_problem("cpuset", None if cpus is None else problem)

    def _report_writes(self) -> None:
        for (file, result), count in self._writer.results.items():
            if result in ("written", "refused", "ignored"):
                self._metrics.add("equipoise_agent_writes_total", count, file=file, result=result)
        for file, count in self._writer.resets.items():
            self._metrics.add("equipoise_agent_values_reset_total", count, file=file)
        faults = sum(count for (_, result), count in self._writer.results.items() if result in ("refused", "ignored"))
        problem = f"{faults} values of cgroups could not be written, the last one is {self._files.error}"
        self._health.set_problem("cgroups", problem if faults else None)

    def _no_groups(self) -> str:
        if self._tree.error:
            return (
                f"the groups of pods cannot be listed, so that batch pods have no limits: {self._tree.error}. Where "
                "SELinux is enforced the agent needs seLinuxOptions.type: spc_t, as in k8s/colocation/agent.yaml"
            )
        where = self._settings.cgroup_parent or "kubepods or kubepods.slice"
        return (
            f"there is no {where} below {self._settings.cgroup_root} (cgroup v{self._tree.version}): mount the node's "
            "cgroups there (agent.cgroupRoot), and set agent.cgroupParent if the kubelet has --cgroup-root"
        )


def limited(groups: PodGroups, pods: Mapping[str, BandPod]) -> list[tuple[PodCgroup, BandPod]]:
    """The pods that request reclaimed resources, and their groups. Other best-effort pods keep what the kubelet set."""
    with_groups = ((groups.pods.get(uid), pod) for uid, pod in pods.items())
    return [
        (group, pod)
        for group, pod in with_groups
        if group is not None and group.qos == "besteffort" and (pod.cpu_request or pod.memory_limit)
    ]
