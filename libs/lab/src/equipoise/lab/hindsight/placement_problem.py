"""What a placement of the pods of a trace has to respect, as arrays."""

from collections.abc import Sequence
from random import Random

import msgspec
import numpy as np

from equipoise.lab.model.cluster_objects import node_labels
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.period_means import period_means
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.scenarios import DAYS_BEFORE_MEASUREMENT
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.scheduling.model.arrays import Flags, Ints, Rows

_HOUR = 3_600.0
_BOUND_TO_NODES = ("DaemonSet", "Node")
"""Kinds of workloads whose pods cannot be on another node. Node is that of static pods."""


class PlacementProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The pods to place, and where they may be. Nodes, workloads and pods are indexes of the trace."""

    trace: Trace
    cpu: Array
    """workloads × hours: the usage of one pod in each measured hour, in cores."""

    memory: Array
    """The same as `cpu`, in bytes."""

    base: Array
    """nodes × (cores, bytes)."""

    allocatable: Ints
    """nodes × resources: CPU, memory, pods, and extended resources."""

    requests: Ints
    """workloads × resources: what one pod requests."""

    workload: Rows
    """The workload of each pod."""

    given: Rows
    """The node of each pod in the trace; −1: none."""

    allowed: Flags
    """workloads × nodes: whether an empty node takes a pod."""

    domain: Ints
    """workloads × nodes: a pod may move between nodes with the same number. Numbers differ with the labels that the
    topology spread constraints of the workload name: moves within a domain change no skew."""

    movable: Flags
    """Whether each pod can be on another node than in the trace."""

    rules: Ints
    """rules × (beside, limited, most): the anti-affinity of the trace."""

    mean: Array
    """hours: the CPU load of the whole cluster when all pods run, in percent."""

    @property
    def peak_hour(self) -> int:
        """The hour with the highest usage of the cluster."""
        return int(self.mean.argmax())

    @property
    def shares(self) -> Array:
        """nodes × 1: the points of load that one core is."""
        return 100.0 / self.base[:, :1]


def measured_days(trace: Trace) -> Trace:
    """The days of the trace that a replay measures: those after the first two, or the first one."""
    per_day, trace = round(86_400.0 / trace.seconds_per_step), trace.in_whole_days
    days = max(1, trace.steps // per_day)
    first, last = (DAYS_BEFORE_MEASUREMENT, days) if days > DAYS_BEFORE_MEASUREMENT else (0, 1)
    return trace.with_steps(np.arange(first * per_day, min(last * per_day, trace.steps)))


def placement_problem(trace: Trace) -> PlacementProblem:
    """The problem of a trace, for all hours of its usage."""
    numbers = {node.name: number for number, node in enumerate(trace.nodes)}
    workload = np.array([pod.workload for pod in trace.pods], dtype=np.intp)
    cpu, memory = (
        period_means(usage, trace.seconds_per_step, _HOUR)
        for usage in (trace.cpu_milli / 1_000.0, trace.memory_mib * MIB)
    )
    base = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])
    extended = sorted({name for node in trace.nodes for name in node.extended_resources})
    allocatable = [
        (node.cpu_milli, node.memory_mib, node.pods, *_amounts(node.extended_resources, extended))
        for node in trace.nodes
    ]
    requests = [
        (each.request_cpu_milli, each.request_memory_mib, 1, *_amounts(each.extended_resources, extended))
        for each in trace.workloads
    ]
    return PlacementProblem(
        trace=trace,
        cpu=cpu,
        memory=memory,
        base=base,
        allocatable=np.array(allocatable, dtype=np.int64),
        requests=np.array(requests, dtype=np.int64),
        workload=workload,
        given=np.array([numbers.get(pod.node, -1) for pod in trace.pods], dtype=np.intp),
        allowed=_allowed(trace),
        domain=_domains(trace),
        movable=np.array([trace.workloads[number].kind not in _BOUND_TO_NODES for number in workload.tolist()]),
        rules=np.array([(rule.beside, rule.limited, rule.most) for rule in trace.rules], dtype=np.int64).reshape(-1, 3),
        mean=trace.replicas() @ cpu / base[:, 0].sum() * 100.0,
    )


def _amounts(amounts: dict[str, int], names: Sequence[str]) -> list[int]:
    return [amounts.get(name, 0) for name in names]


def _allowed(trace: Trace) -> Flags:
    """The nodes that kube-scheduler would choose among if they were empty."""
    scheduler = SimulatedScheduler(trace, Random(0))
    allowed = np.zeros((len(trace.workloads), len(trace.nodes)), dtype=np.bool_)
    for number in range(len(trace.workloads)):
        allowed[number, scheduler.feasible(scheduler.template(number))] = True
    return allowed


def _domains(trace: Trace) -> Ints:
    domain = np.zeros((len(trace.workloads), len(trace.nodes)), dtype=np.int64)
    labels = [node_labels(node) for node in trace.nodes]
    for number, workload in enumerate(trace.workloads):
        keys = [each.topology_key for each in workload.topology_spread if each.when_unsatisfiable == "DoNotSchedule"]
        if keys:
            values: dict[tuple[str | None, ...], int] = {}
            domain[number] = [values.setdefault(tuple(map(of_node.get, keys)), len(values)) for of_node in labels]
    return domain
