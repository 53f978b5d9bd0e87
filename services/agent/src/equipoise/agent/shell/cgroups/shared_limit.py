"""The limit of all best-effort pods together, as a quota or as a set of CPUs."""

from collections.abc import Sequence

import msgspec

from equipoise.agent.decisions.cpu_sets import choose_cpus
from equipoise.agent.decisions.pod_values import PERIOD, PodValues
from equipoise.agent.decisions.suppression import MIN_CPUS, CpuLimit, Policy, next_cpu_count, next_quota
from equipoise.agent.shell.cgroups.cgroup_tree import PodCgroup, PodGroups
from equipoise.agent.shell.cgroups.limit_writer import LimitWriter
from equipoise.agent.shell.cgroups.node_usage import read_siblings


class SharedLimit:
    """The limit of all best-effort pods together, by one policy."""

    def __init__(self, policy: Policy, writer: LimitWriter, system: str) -> None:
        self._policy = policy
        self._writer = writer
        self._system = system
        self.too_few_cpus: int | None = None
        """The number of CPUs that all pods share, if it is too small for a set of CPUs to limit anything."""

    def current_limit(self, groups: PodGroups) -> CpuLimit:
        """The limit of this policy that the cgroups contain now. After a restart, the agent continues from it."""
        cores: float | None = None
        if self._policy == "quota" and (quota := self._writer.quota(groups)) is not None:
            cores = quota / PERIOD
        elif self._policy == "cpuset":
            count = len(self._writer.best_effort_cpus(groups))
            cores = count if count < len(self._writer.available_cpus(groups)) else None
        return CpuLimit(cores=cores, reason="" if cores is None else "restart")

    def lift_others(self, groups: PodGroups) -> None:
        """Lifts a limit of another policy: an agent that was killed could not lift it."""
        if self._policy != "quota":
            self._writer.write(groups, (), None, shared=True)
        if self._policy != "cpuset":
            self._writer.lift_cpus(groups)

    def write(
        self,
        groups: PodGroups,
        pods: Sequence[tuple[PodCgroup, PodValues]],
        target: CpuLimit,
        before: CpuLimit,
        capacity: float,
    ) -> CpuLimit:
        """Writes the limit, and the values of pods. Returns the written limit, which grows in steps."""
        match self._policy:
            case "quota":
                return self._write_quota(groups, pods, target, before, capacity)
            case "cpuset":
                self._writer.write(groups, pods, None, shared=False)
                return self._write_cpus(groups, target, before)
            case "off":
                self._writer.write(groups, pods, None, shared=False)
                return CpuLimit()

    def _write_quota(
        self,
        groups: PodGroups,
        pods: Sequence[tuple[PodCgroup, PodValues]],
        target: CpuLimit,
        before: CpuLimit,
        capacity: float,
    ) -> CpuLimit:
        quota = None
        if target.cores is not None:
            current = None if before.cores is None else round(before.cores * PERIOD)
            changed = next_quota(target.cores, current, capacity)
            quota = current if changed is None else changed
        self._writer.write(groups, pods, quota, shared=True)
        return CpuLimit() if quota is None else msgspec.structs.replace(target, cores=quota / PERIOD)

    def _write_cpus(self, groups: PodGroups, target: CpuLimit, before: CpuLimit) -> CpuLimit:
        available = self._writer.shared_cpus(groups)
        count = len(available)
        self.too_few_cpus = count if count <= MIN_CPUS else None
        if target.cores is not None:
            count = next_cpu_count(target.cores, round(before.cores or len(available)), len(available))
        if count >= len(available):
            self._writer.write_cpus(groups, None)
            return CpuLimit()
        self._writer.write_cpus(groups, choose_cpus(available, read_siblings(self._system, available), count))
        return msgspec.structs.replace(target, cores=float(count))
