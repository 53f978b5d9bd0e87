"""The scheduler of a replay: kube-scheduler, alone or with an extender, or the greedy reference."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.objects.pod import PreferredNodes
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.anti_affinity import AntiAffinityIndex, TraceAntiAffinity
from equipoise.lab.model.cluster_objects import APP, KIND, node_object, owner_of_pods, pod_template
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.trace import Array, Trace
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.configuration import (
    DEFAULT_SCHEDULER,
    SchedulerConfiguration,
    document_with_plugins,
    read_configuration,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import PostFiltered
from equipoise.scheduling.framework.plugin_times import LIMIT, PluginTimes
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.scheduler import Extender

_NO_PLUGINS: Mapping[str, Factory] = {}

_MOST_PROBLEMS = 20
"""The maximum number of different problems that are counted separately: an error may contain the name of a pod."""

MEMORY_WEIGHT = 0.3
"""Weight of the squared distance of memory for the greedy reference; that of CPU is 1."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler does with a pod."""

    node: int | None = None
    victims: tuple[str, ...] = ()
    """UIDs of the pods that it deletes so that the pod fits on their node later."""


class SimulatedScheduler:
    """kube-scheduler, and the pods of each node. Nodes and workloads are indexes of the trace."""

    def __init__(
        self,
        trace: Trace,
        generator: random.Random,
        extender: Callable[[PodDemand, float], Extender | None] = lambda pod, now: None,
        preferred: Callable[[PodDemand], Sequence[PreferredNodes]] = lambda pod: (),
        percentage_of_nodes_to_score: int = 0,
        plugins: Mapping[str, Factory] = _NO_PLUGINS,
        plugin_weight: int = 1,
    ) -> None:
        """The scheduler with its nodes. `extender`: returns the extender for a pod at a time; None: there is no
        extender.

        `preferred`: the preferred terms of node affinity that a new pod was given. `plugins`: plugins of a user by
        name, each with the weight of its scores. Raises InvalidConfiguration for plugins that cannot be used.
        """
        self._trace = trace
        self.anti_affinity = AntiAffinityIndex(trace.rules, len(trace.nodes))
        self._numbers = {
            (workload.namespace, workload.kind, workload.name): index for index, workload in enumerate(trace.workloads)
        }
        rules = TraceAntiAffinity(self.anti_affinity, self.workload)
        registered = dict(plugins)
        if trace.rules:
            registered[rules.name] = lambda args, handle: rules
        weights = {name: plugin_weight if name in plugins else 1 for name in registered}
        times = PluginTimes(time.monotonic) if plugins else None
        self._cluster = ClusterScheduler(
            generator,
            scheduler_configuration(weights, percentage_of_nodes_to_score),
            registered,
            measure=None if times is None else times.measure,
        )
        self._times = times
        self._only_room_helps = (
            not plugins
            and len({workload.priority for workload in trace.workloads}) < 2
            and not any(workload.topology_spread for workload in trace.workloads)
        )
        """Whether a pending pod can be scheduled only on a node that has more room than before."""

        self.plugin_problems: Counter[str] = Counter()
        """The number of scheduling attempts in which a plugin had a problem, by problem."""

        # The row of a node in the snapshot is its index in the trace.
        for node in trace.nodes:
            self._cluster.put(node_object(node))
        self._framework = self._cluster.schedulers[DEFAULT_SCHEDULER].framework
        self._extender = extender
        self._preferred = preferred

    def template(self, workload: int, revision: int = 0) -> PodInfo:
        """A pod of this revision of the workload, see `PodInfo.replica`."""
        traced = self._trace.workloads[workload]
        owner = owner_of_pods(traced, revision)
        if owner is not None:
            self._cluster.put(owner)
        return pod_template(traced, revision)

    def workload(self, pod: PodInfo) -> int:
        """Index of its workload."""
        return self._numbers[pod.namespace, pod.labels[KIND], pod.labels[APP]]

    def choose(self, pod: PodInfo, demand: PodDemand, now: float) -> Choice:
        """A feasible node, none, or a preemption. The pod is not placed yet."""
        extender, preferred = self._extender(demand, now), self._preferred(demand)
        if preferred:
            pod = pod.with_preferred_nodes(preferred)
        return self._decide(pod, () if extender is None else (extender,))

    def choose_alone(self, pod: PodInfo) -> Choice:
        """The same without the extender and without preferred nodes."""
        return self._decide(pod, ())

    def _decide(self, pod: PodInfo, extenders: Sequence[Extender]) -> Choice:
        decision = self._cluster.decide(pod, extenders)
        if decision.status is not None and decision.status.code == Code.ERROR:
            self._count_problem("; ".join(decision.status.reasons))
        if self._times is not None:
            _, slow = self._times.take()
            for plugin, point in slow:
                self._count_problem(f"plugin {plugin} takes more than {LIMIT:g} s in {point}")
        if decision.node:
            return Choice(node=self._cluster.snapshot.row(decision.node))
        return self._preempted(pod, decision.preemption)

    def _preempted(self, pod: PodInfo, found: PostFiltered | None) -> Choice:
        nominated = self._cluster.nominated
        if found is None or not found.node:
            if found is not None and found.clear_nomination:
                nominated.remove(pod)
            return Choice()
        nominated.preempt(pod, found.node)
        return Choice(victims=tuple(victim.uid for victim in found.victims))

    def _count_problem(self, problem: str) -> None:
        if len(self.plugin_problems) >= _MOST_PROBLEMS and problem not in self.plugin_problems:
            problem = "other problems of plugins"
        self.plugin_problems[problem] += 1

    @property
    def budgets(self) -> list[PodDisruptionBudget]:
        return list(self._cluster.budgets.values())

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        """Adds or replaces a PodDisruptionBudget, which preemption considers."""
        self._cluster.put(budget)

    def feasible(self, pod: PodInfo) -> Rows:
        """All nodes on which the pod could run now."""
        state, snapshot = CycleState(), self._cluster.snapshot
        status, _ = self._framework.pre_filter(state, pod, snapshot)
        rows = snapshot.rows
        if not status.is_success:
            return rows[:0]
        return rows[self._framework.filter(state, pod, snapshot, rows).passed]

    def may_fit(self, pod: PodInfo, freed: int) -> bool:
        """Whether a pending pod is worth another attempt after a pod on the node `freed` was removed.

        It is not if that node has too little CPU, memory or pods left, because no other node has changed for the
        better. With priorities, topology spread constraints or plugins of a user, other changes may help, too.
        """
        requests = pod.shape.basic_requests
        if not self._only_room_helps or requests is None:
            return True
        snapshot = self._cluster.snapshot
        free = (snapshot.allocatable[:4, freed] - snapshot.requested[:4, freed])[:, np.newaxis]
        return not bool((free < requests).any())

    def excluded(self, workload: int) -> list[int]:
        """Nodes that anti-affinity rules exclude for pods of the workload."""
        flags = self.anti_affinity.excluded(workload)
        return [] if flags is None else np.flatnonzero(flags).tolist()

    def place(self, pod: PodInfo, node: int) -> None:
        """Add a pod, even if it does not fit."""
        self._cluster.nominated.remove(pod)
        self._cluster.snapshot.add_pod(pod, node)
        self.anti_affinity.place(self.workload(pod), node)

    def forget(self, pod: PodInfo) -> None:
        """Forgets a deleted pod that had no node."""
        self._cluster.nominated.remove(pod)

    def update(self, pod: PodInfo, node: int) -> None:
        """Replaces a pod on the node whose labels have changed."""
        self._cluster.snapshot.put_pod(pod, node)

    def terminate(self, pod: PodInfo, node: int, *, preempted: bool = False) -> None:
        """The pod keeps its resources until `remove`, but does not count for spreading.

        Raises KeyError when there is no such pod on the node.
        """
        self._cluster.snapshot.remove_pod(pod, node)
        self._cluster.snapshot.add_pod(pod.deleted(preempted=preempted), node)

    def remove(self, pod: PodInfo, node: int) -> None:
        """Raises KeyError when there is no such pod on the node."""
        self._cluster.snapshot.remove_pod(pod, node)
        self.anti_affinity.remove(self.workload(pod), node)


class GreedyScheduler(SimulatedScheduler):
    """An unattainable reference: it knows every usage curve and the final mean load of the cluster.

    Each pod is placed where it adds least to Σ (load of the node − mean load)² over the day, for CPU and memory.
    Policies are compared with it.
    """

    def __init__(self, trace: Trace, generator: random.Random) -> None:
        super().__init__(trace, generator)
        self._base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
        self._curves = np.stack([trace.cpu_milli / 1_000.0, trace.memory_mib * MIB])
        """resources × workloads × steps."""

        self._used = np.zeros((2, len(trace.nodes), trace.steps))
        whole = np.einsum("rws,w->rs", self._curves, trace.replicas())
        self._mean = whole / self._base.sum(axis=0)[:, np.newaxis]
        """resources × steps: the mean load once all pods are placed."""

    def choose(self, pod: PodInfo, demand: PodDemand, now: float) -> Choice:
        """The node with the lowest cost, of those on which the pod fits. It never preempts."""
        feasible = self.feasible(pod)
        if not len(feasible):
            return Choice()
        return Choice(node=int(feasible[self._cost(self.workload(pod))[feasible].argmin()]))

    def _cost(self, workload: int) -> Array:
        """The cost on each node: what one pod of the workload adds to the squared distance, as mean over the steps."""
        cost = np.zeros(len(self._base))
        for resource, weight in enumerate((1.0, MEMORY_WEIGHT)):
            base = self._base[:, resource]
            pod = self._curves[resource, workload]
            # (d + p)² − d² = 2dp + p², summed over the steps; d: the distance to the mean, p: the pod, both as shares.
            distance_times_pod = self._used[resource] @ pod / base - self._mean[resource] @ pod
            cost += weight * (2.0 * distance_times_pod + pod @ pod / base) / base
        mean: Array = cost / self._curves.shape[2]
        return mean

    def place(self, pod: PodInfo, node: int) -> None:
        super().place(pod, node)
        self._used[:, node] += self._curves[:, self.workload(pod)]

    def remove(self, pod: PodInfo, node: int) -> None:
        super().remove(pod, node)
        self._used[:, node] -= self._curves[:, self.workload(pod)]


def scheduler_configuration(
    weights: Mapping[str, int], percentage_of_nodes_to_score: int = 0
) -> SchedulerConfiguration:
    """The configuration of kube-scheduler with these plugins in addition. `weights`: the weights of their scores, by
    name."""
    document = document_with_plugins(weights) | {"percentageOfNodesToScore": percentage_of_nodes_to_score}
    return read_configuration(document, weights.keys())
