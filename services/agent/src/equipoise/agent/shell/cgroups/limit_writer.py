"""Writes the limits of pods and of all best-effort pods together, reads them back, and restores the kubelet's values.

Every value is compared in every round: with the systemd driver, each update by the kubelet resets the quota of its
groups. On cgroup v1 the kernel refuses a quota above that of the parent and a quota below that of a child, and it
treats sets of CPUs the same way. So limits grow from the parent down, and shrink from the children up.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from equipoise.agent.decisions.cpu_sets import format_cpus, parse_cpus, shared_cpus
from equipoise.agent.decisions.pod_values import KUBELET_VALUES, PERIOD, PodValues, weight_of
from equipoise.agent.shell.cgroups.cgroup_files import CgroupFiles, Result
from equipoise.agent.shell.cgroups.cgroup_tree import CgroupTree, Controller, PodCgroup, PodGroups

UNLIMITED = 2**62
"""Bytes. On v1 a limit of at least this means no limit, for which the kernel shows the highest number of pages."""


class LimitWriter:
    """Remembers what it wrote, to notice when another program writes something else."""

    def __init__(self, tree: CgroupTree, files: CgroupFiles) -> None:
        self._tree = tree
        self._files = files
        self._written: dict[str, str] = {}
        self._used: set[str] = set()
        self.results: Counter[tuple[str, Result]] = Counter()
        """The number of writes in this round, by file and result."""

        self.resets: Counter[str] = Counter()
        """The number of values that another program had changed, by file, in this round."""

    def begin_round(self) -> None:
        for path in self._written.keys() - self._used:
            del self._written[path]
        self._used.clear()
        self.results.clear()
        self.resets.clear()

    # All best-effort pods

    def quota(self, groups: PodGroups) -> int | None:
        """The quota of all best-effort pods, in microseconds per PERIOD; None if there is no limit or it is unknown."""
        if groups.best_effort is None:
            return None
        if self._tree.version == 2:
            text = self._files.read(self._path("cpu", groups.best_effort, "cpu.max")) or "max"
            quota, _, period = text.partition(" ")
        else:
            quota = self._files.read(self._path("cpu", groups.best_effort, "cpu.cfs_quota_us")) or "-1"
            period = self._files.read(self._path("cpu", groups.best_effort, "cpu.cfs_period_us")) or ""
        return round(int(quota) * PERIOD / int(period or PERIOD)) if quota not in ("max", "-1") else None

    def write(
        self, groups: PodGroups, pods: Iterable[tuple[PodCgroup, PodValues]], quota: int | None, *, shared: bool
    ) -> None:
        """Writes the values of pods and, if `shared`, the quota of all best-effort pods."""
        best_effort = groups.best_effort
        present = self.quota(groups)
        wanted = quota if shared else present
        shrinks = wanted is not None and (present is None or wanted < present)
        if best_effort is not None and shared and not shrinks:
            self._quota(best_effort, quota)
        for group, values in pods:
            self._pod(group, values, wanted)
        if best_effort is not None and shared and shrinks:
            self._quota(best_effort, quota)

    def _pod(self, group: PodCgroup, values: PodValues, highest: int | None) -> None:
        quota = values.quota
        if self._tree.version == 1 and quota is not None and highest is not None:
            quota = min(quota, highest)
        self._quota(group.path, quota)
        if self._tree.version == 1:
            self._ensure("cpu", group.path, "cpu.shares", str(values.shares))
            soft = -1 if values.memory_high is None else values.memory_high
            self._ensure("memory", group.path, "memory.soft_limit_in_bytes", str(soft), _same_memory)
        else:
            self._ensure("cpu", group.path, "cpu.weight", str(weight_of(values.shares)))
            self._ensure("memory", group.path, "memory.high", str(values.memory_high or "max"))

    def _quota(self, path: str, quota: int | None) -> None:
        if self._tree.version == 1:
            self._ensure("cpu", path, "cpu.cfs_quota_us", str(-1 if quota is None else quota))
        else:
            self._ensure("cpu", path, "cpu.max", f"{'max' if quota is None else quota} {PERIOD}")

    # CPUs

    def available_cpus(self, groups: PodGroups) -> frozenset[int]:
        """The CPUs of all pods."""
        return self._cpus(groups.kubepods)

    def shared_cpus(self, groups: PodGroups) -> frozenset[int]:
        """The CPUs of all pods without those that the kubelet has given to a container alone.

        On v1 the agent writes the sets of containers, so it cannot know what the kubelet has given them.
        """
        available = self.available_cpus(groups)
        if self._tree.version == 1:
            return available
        texts = (
            self._files.read(self._path("cpuset", path, "cpuset.cpus"))
            for group in groups.pods.values()
            if group.qos == "besteffort"
            for path in self._tree.containers("cpuset", group.path)
        )
        return shared_cpus(available, (parse_cpus(text or "") for text in texts))

    def best_effort_cpus(self, groups: PodGroups) -> frozenset[int]:
        return self._cpus(groups.best_effort or groups.kubepods)

    def write_cpus(self, groups: PodGroups, cpus: frozenset[int] | None) -> None:
        """Sets the CPUs of best-effort pods; None: those of all pods. On v1 every group below has a set of its own."""
        if groups.best_effort is None:
            return
        if self._tree.version == 2:
            self._ensure_cpus(groups.best_effort, cpus or self._cpus_without_limit(groups, groups.best_effort))
            return
        wanted = cpus or self.available_cpus(groups)
        below = [
            path
            for group in groups.pods.values()
            if group.qos == "besteffort"
            for path in (group.path, *self._tree.containers("cpuset", group.path))
        ]
        paths = [groups.best_effort, *below]
        present = self.best_effort_cpus(groups)
        if not wanted <= present:
            # A child may have the new CPUs only after its parents, so all first get them beside the present ones.
            for path in paths:
                self._ensure_cpus(path, wanted | present)
        for path in reversed(paths):
            self._ensure_cpus(path, wanted)

    def lift_cpus(self, groups: PodGroups) -> None:
        """Best-effort pods get the CPUs of all pods, if they have fewer."""
        if self._tree.has("cpuset") and self.best_effort_cpus(groups) != self.available_cpus(groups):
            self.write_cpus(groups, None)

    def _cpus_without_limit(self, groups: PodGroups, best_effort: str) -> frozenset[int]:
        """The set of CPUs that lifts the limit on v2. It is the empty set, which means that of the parent. The kernel
        refuses the empty set (ENOSPC) for a group that has a set and processes; until these end, the group gets the
        CPUs of its parent.
        """
        present = self._files.read(self._path("cpuset", best_effort, "cpuset.cpus"))
        events = self._files.read(self._path("cpuset", best_effort, "cgroup.events")) or ""
        if present and "populated 1" in events.splitlines():
            return self.available_cpus(groups)
        return frozenset()

    def _ensure_cpus(self, path: str, cpus: frozenset[int]) -> None:
        self._ensure("cpuset", path, "cpuset.cpus", format_cpus(cpus), _same_cpus)

    def _cpus(self, path: str) -> frozenset[int]:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = self._files.read(self._path("cpuset", path, name))
            if text:
                return parse_cpus(text)
        return frozenset()

    # The end

    def restore(self, groups: PodGroups, pods: Iterable[PodCgroup]) -> None:
        """Restores the values of the kubelet, from the parent down."""
        self.write(groups, ((group, KUBELET_VALUES) for group in pods), None, shared=True)
        if self._tree.has("cpuset"):
            self.write_cpus(groups, None)

    def _path(self, controller: Controller, group: str, name: str) -> str:
        return f"{self._tree.hierarchy(controller)}/{group}/{name}"

    def _ensure(
        self, controller: Controller, group: str, name: str, text: str, same: Callable[[str, str], bool] = str.__eq__
    ) -> None:
        path = self._path(controller, group, name)
        result = self._files.ensure(path, text, same)
        self.results[name, result] += 1
        if result == "written" and self._written.get(path) == text:  # another program changed it in between
            self.resets[name] += 1
        self._written[path] = text
        self._used.add(path)


def _same_memory(current: str, wanted: str) -> bool:
    return int(current) >= UNLIMITED if wanted == "-1" else current == wanted


def _same_cpus(current: str, wanted: str) -> bool:
    return parse_cpus(current) == parse_cpus(wanted)
