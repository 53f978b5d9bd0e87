"""What the nodes of a trace use over several days, without batch work."""

import msgspec

from equipoise.contracts.numeric import Array, np
from equipoise.lab.model.batch_demand import STEPS_PER_DAY, NodeDays
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.period_means import period_means
from equipoise.lab.model.trace import Trace

NOISE = 0.1
"""The standard deviation of a workload from its usual day, for traces whose first day is repeated.

The deviations are correlated over one hour.
"""

_QUARTER = 900.0
_LEARNED_DAYS = 8
_MIN_DAYS = 6
"""The first day of a trace is repeated if it has fewer days."""


class PodDays(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of CPU by pods."""

    counts: Array
    """nodes × workloads: the number of pods."""

    usage: Array
    """workloads × quarter hours: the usage of one pod, in cores."""


class ClusterDays(msgspec.Struct, frozen=True, kw_only=True):
    """The days of the nodes that have pods."""

    cpu: NodeDays
    memory: NodeDays
    pods: PodDays
    in_sample: bool
    """Whether the first day is repeated, with deviations of NOISE."""


def cluster_days(trace: Trace, *, pod_cores: float, pod_memory: float) -> ClusterDays:
    """The days of a trace. `pod_cores`, `pod_memory`: the request of a batch pod, in cores and bytes.

    Pods without a node are ignored. If no pod has a node, all are placed by requested CPU, the largest first, each on
    the node with the least requested CPU. In a trace of six or more days, at most eight days serve for learning, and
    the days after them are measured, except the last one. A trace of less than a day is repeated to fill a day.
    """
    counts = _counts(trace)
    used = np.flatnonzero(counts.sum(axis=1))
    counts = counts[used]
    curves = [_quarters(usage, trace.seconds_per_step) for usage in (trace.cpu_milli / 1_000.0, trace.memory_mib * MIB)]
    capacity = np.array([(node.cpu_milli / 1_000.0, node.memory_mib * MIB) for node in trace.nodes])[used].T
    days = curves[0].shape[1] // STEPS_PER_DAY
    repeated = days < _MIN_DAYS
    learned = _LEARNED_DAYS if repeated else min(_LEARNED_DAYS, days - 3)
    # After the learned days, repeated days are: one on which batch pods are first admitted, a measured one, a last one.
    measured_from = (learned + 1 if repeated else learned) * STEPS_PER_DAY
    measured_until = (learned + 2 if repeated else days - 1) * STEPS_PER_DAY
    node_days, pod_usage = [], []
    for seed, (curve, capacities, pod) in enumerate(
        zip(curves, capacity, (pod_cores, pod_memory), strict=True), start=1
    ):
        usage_of_pods, typical = curve, None
        if repeated:
            day = curve[:, :STEPS_PER_DAY]
            typical = (counts @ day).reshape(len(counts), 24, -1).mean(axis=2)
            usage_of_pods = np.tile(day, (1, learned + 3)) * _noise(len(day), (learned + 3) * STEPS_PER_DAY, seed)
        pod_usage.append(usage_of_pods)
        node_days.append(
            NodeDays(
                usage=counts @ usage_of_pods,
                capacity=capacities,
                typical=typical,
                measured_from=measured_from,
                measured_until=measured_until,
                pod=pod,
            )
        )
    pods = PodDays(counts=counts, usage=pod_usage[0])
    return ClusterDays(cpu=node_days[0], memory=node_days[1], pods=pods, in_sample=repeated)


def _quarters(usage: Array, seconds_per_step: float) -> Array:
    """The mean usage of whole days, workloads × quarter hours. Less than a day is repeated to fill a day."""
    per_day = round(STEPS_PER_DAY * _QUARTER / seconds_per_step)
    whole = usage[:, : usage.shape[1] // per_day * per_day]
    if not whole.shape[1]:
        whole = np.tile(usage, (1, -(-per_day // usage.shape[1])))[:, :per_day]
    return period_means(whole, seconds_per_step, _QUARTER)


def _counts(trace: Trace) -> Array:
    """The number of pods, nodes × workloads."""
    counts = np.zeros((len(trace.nodes), len(trace.workloads)))
    rows = {node.name: row for row, node in enumerate(trace.nodes)}
    placed = any(pod.node for pod in trace.pods)
    requested = np.zeros(len(trace.nodes))
    for pod in sorted(trace.pods, key=lambda pod: -trace.workloads[pod.workload].request_cpu_milli):
        if pod.node or not placed:
            row = rows[pod.node] if pod.node else int(requested.argmin())
            requested[row] += trace.workloads[pod.workload].request_cpu_milli
            counts[row, pod.workload] += 1.0
    return counts


def _noise(workloads: int, steps: int, seed: int) -> Array:
    """Random factors with a mean of 1, workloads × steps."""
    generator = np.random.default_rng(seed)
    correlation = np.exp(-_QUARTER / 3_600.0)
    state = generator.normal(0.0, NOISE, workloads)
    factors = np.empty((workloads, steps))
    for step in range(steps):
        factors[:, step] = np.exp(state - NOISE**2 / 2)
        state = correlation * state + np.sqrt(1.0 - correlation**2) * generator.normal(0.0, NOISE, workloads)
    return factors
