"""What the recommender of the VerticalPodAutoscaler would propose, for comparison.

CPU: the 90th percentile of all measured steps; memory: the 90th percentile of the peaks of the days. The weight of a
sample halves with each day of its age. A percentile is the end of its bucket in a histogram whose buckets grow by 5 %.
Both with a margin of 15 %, and at least 25 milli cores and 250 MiB.
Source: kubernetes/autoscaler, vertical-pod-autoscaler/pkg/recommender: `CreatePodResourceRecommender`,
`NewAggregationsConfig`, `decayingHistogram` and `exponentialHistogramOptions`, with the defaults of its flags.
"""

import math

import numpy as np

from equipoise.lab.model.resource_requests import ResourceRequests, requests_of_workload
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.resource_requests.measured_days import DAY, measured_steps
from equipoise.lab.resource_requests.proposals import FLOOR, MARGIN

_PERCENTILE = 0.9
_GROWTH = 1.05
_FIRST_BUCKETS = (10.0, 1e7 / 2**20)
"""The sizes of the first buckets: 0.01 cores in milli cores, and 10 MB in MiB."""


def recommended_requests(trace: Trace) -> tuple[ResourceRequests, ...]:
    """The requests of a pod of each workload. Where nothing was measured, the present ones, within the limits."""
    return tuple(
        ResourceRequests(
            cpu_milli=_limited(cpu, present.cpu_milli, FLOOR.cpu_milli, workload.limit_cpu_milli),
            memory_mib=_limited(memory, present.memory_mib, FLOOR.memory_mib, workload.limit_memory_mib),
        )
        for workload, present, cpu, memory in zip(
            trace.workloads,
            map(requests_of_workload, trace.workloads),
            _percentiles(trace, 0, 1),
            _percentiles(trace, 1, max(1, round(DAY / trace.seconds_per_step))),
            strict=True,
        )
    )


def _limited(usage: float, present: int, floor: int, limit: int | None) -> int:
    if math.isnan(usage):
        return present
    recommended = max(floor, math.ceil(usage * (1.0 + MARGIN)))
    return recommended if limit is None else min(recommended, limit)


def _percentiles(trace: Trace, resource: int, steps_per_sample: int) -> list[float]:
    """The percentile of each workload. A sample is the highest of this many steps; NaN if there is no sample."""
    usage, measured = measured_steps(trace, resource)
    known = np.where(measured, usage, np.nan)
    starts = range(0, trace.steps, steps_per_sample)
    samples = np.stack([_highest(known[:, start : start + steps_per_sample]) for start in starts], axis=1)
    ages = (trace.steps - np.array(starts)) * trace.seconds_per_step / DAY
    return [_percentile(row, 0.5**ages, _FIRST_BUCKETS[resource]) for row in samples]


def _highest(steps: Array) -> Array:
    highest = np.where(np.isnan(steps), -np.inf, steps).max(axis=1)
    return np.where(np.isinf(highest), np.nan, highest)


def _percentile(samples: Array, weights: Array, first_bucket: float) -> float:
    known = ~np.isnan(samples)
    if not known.any():
        return math.nan
    order = np.argsort(samples[known])
    weight = np.cumsum(weights[known][order])
    value = float(samples[known][order][np.searchsorted(weight, _PERCENTILE * weight[-1])])
    # Bucket n starts at first_bucket · (1 + 1.05 + … + 1.05ⁿ⁻¹).
    bucket = math.floor(math.log(value * (_GROWTH - 1.0) / first_bucket + 1.0, _GROWTH) + 1e-9)
    return first_bucket * (_GROWTH ** (bucket + 1) - 1.0) / (_GROWTH - 1.0)
