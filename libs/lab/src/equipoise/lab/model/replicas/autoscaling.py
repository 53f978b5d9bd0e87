"""A trace whose workloads are scaled through the day, as a HorizontalPodAutoscaler scales them by their use of CPU.

desired = ceil(current · usage / target), unless usage / target differs from 1 by at most a tenth; the replicas fall to
the highest number that was desired in the last five minutes. Usage is the mean over the pods.
Source: kubernetes, pkg/controller/podautoscaler, `GetResourceReplicas` and `stabilizeRecommendation`; the tolerance and
the stabilization are the defaults of kube-controller-manager.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.lab.model.trace import Array, Trace

TOLERANCE = 0.1
DOWNSCALE_STABILIZATION = 300.0
"""Seconds."""

_HOUR = 3_600.0

_KINDS = frozenset({"Deployment", "ReplicaSet"})
"""The kinds whose pods a ReplicaSet deletes."""

_DAYS = 2
"""The number of replicas at the end of the trace is that at its start, because the trace repeats."""


def autoscaled(trace: Trace) -> Trace:
    """The trace with `replicas_by_step`, and the usage of a pod that follows from it.

    The target is the highest usage of a pod in the trace, so that a workload has the pods of the trace when it uses
    most, and fewer otherwise. A workload uses as much CPU as in the trace, divided among the pods that it has; the
    memory of a pod does not change.
    """
    most = trace.replicas()
    steps = stabilization_steps(trace)
    replicas = np.repeat(most[:, np.newaxis], trace.steps, axis=1)
    for number, workload in enumerate(trace.workloads):
        target = trace.cpu_milli[number].max()
        if workload.kind in _KINDS and most[number] > 1 and target > 0.0:
            needed = trace.cpu_milli[number] * most[number] / target
            replicas[number] = replicas_by_step(needed, int(most[number]), steps, most=int(most[number]))
    cpu_milli = trace.cpu_milli * most[:, np.newaxis] / np.maximum(replicas, 1)
    return msgspec.structs.replace(trace, cpu_milli=cpu_milli, replicas_by_step=replicas)


def stabilization_steps(trace: Trace) -> int:
    """The number of steps before the present one whose desired replicas count for a scale-down."""
    return round(DOWNSCALE_STABILIZATION // trace.seconds_per_step)


def replicas_by_step(needed: Array, replicas: int, stabilization: int, *, most: int) -> npt.NDArray[np.intp]:
    """The replicas in each step, from 1 to `most`. `needed`: the usage of all pods, as a multiple of the target.

    `replicas`: their number at the start; `stabilization`: see `stabilization_steps`.
    """
    current, desired, by_step = replicas, list[int](), list[int]()
    for usage in np.tile(needed, _DAYS).tolist():
        steady = abs(usage / current - 1.0) <= TOLERANCE
        # Rounding errors must not add a pod.
        desired.append(current if steady else max(1, min(most, int(np.ceil(usage - 1e-9)))))
        current = max(desired[-1], min(current, max(desired[-1 - stabilization :])))
        by_step.append(current)
    return np.array(by_step[-len(needed) :], dtype=np.intp)


def pods_by_hour(replicas: npt.NDArray[np.intp], seconds_per_step: float, end: float) -> Array:
    """The number of pods in each of the 24 hours until `end`, workloads × hours, as the collector counts them.

    A pod counts in an hour if it runs for 80 % of it. `replicas`: workloads × steps of a trace that repeats; `end`: a
    full hour, in seconds since its start.
    """
    per_hour = max(1, round(_HOUR / seconds_per_step))
    times = end + np.arange(-24 * per_hour, 0) * (_HOUR / per_hour)
    steps = (times // seconds_per_step).astype(np.intp) % replicas.shape[1]
    hours = np.sort(replicas[:, steps].reshape(len(replicas), 24, per_hour), axis=2)
    return hours[:, :, per_hour // 5].astype(np.float64)
