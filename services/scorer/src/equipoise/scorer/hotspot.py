"""A node's load with the pods in it that its windows do not show yet, and without those that have left.

The corrected load hangs on the samples' own times, not on the time of the question: it is computed once per message.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from equipoise.contracts.demand import Link, expected_usage, fresh
from equipoise.contracts.load import RESOURCES, Stay, compensated, known
from equipoise.contracts.messages import (
    GonePod,
    NodePlacement,
    NodeUtilization,
    PlacedPod,
    Resources,
    WorkloadUtilization,
)
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.workload import Workload
from equipoise.scorer.loads import Array, amounts

Workloads = Mapping[Workload, WorkloadUtilization]


def compensated_load(
    utilization: NodeUtilization,
    placement: NodePlacement,
    workloads: Workloads,
    *,
    load: LoadSettings,
    chain: tuple[Link, ...],
    now: float,
) -> Array:
    """windows × resources, as share (0..1) of the node's base; NaN for windows that are absent."""
    stays = tuple(_stays(utilization, placement, workloads, load=load, chain=chain, now=now))
    rows = np.full((len(load.windows), len(RESOURCES)), np.nan)
    for index, window in enumerate(load.windows):
        value = utilization.windows.get(window.name)
        if value is None:
            continue
        usage = compensated(
            Resources(cpu=known(value.mean.cpu), memory=known(value.mean.memory)),
            stays,
            sampled_at=value.sampled_at,
            length=window.length,
            mode=load.compensation,
            start_limit=load.start_limit,
        )
        rows[index] = amounts(usage)
    shares: Array = rows / base_of(utilization)
    return shares


def base_of(utilization: NodeUtilization) -> Array:
    """Cores and bytes that load refers to; NaN where there are none."""
    base = utilization.base
    return np.array(amounts(Resources(cpu=known(base.cpu) or None, memory=known(base.memory) or None)))


def _stays(
    utilization: NodeUtilization,
    placement: NodePlacement,
    workloads: Workloads,
    *,
    load: LoadSettings,
    chain: tuple[Link, ...],
    now: float,
) -> Iterator[Stay]:
    """Only of pods that some window holds in part: most pods have been there for longer and cost nothing."""
    begins = [
        value.sampled_at - window.length
        for window in load.windows
        if (value := utilization.windows.get(window.name)) is not None
    ]
    if load.compensation == "off" or not begins:
        return
    horizon = min(begins)

    def usage_of(pod: PlacedPod | GonePod, measured: Resources) -> Resources:
        cpu, memory = known(measured.cpu), known(measured.memory)
        if cpu is not None and memory is not None:
            return measured
        workload = None if pod.workload is None else fresh(workloads.get(pod.workload), load, now)
        expected, _ = expected_usage(
            requests=pod.requests, limits=pod.limits, workload=workload, window=load.shortest.name, chain=chain
        )
        return Resources(cpu=expected.cpu if cpu is None else cpu, memory=expected.memory if memory is None else memory)

    for pod in placement.pods:
        start = pod.placed_at + load.start_limit if pod.running_since is None else pod.running_since
        if pod.terminating or start > horizon:
            yield Stay(
                placed_at=pod.placed_at,
                running_since=pod.running_since,
                gone_at=math.inf if pod.terminating else None,
                usage=usage_of(pod, utilization.pods.get(pod.uid, Resources())),
            )
    for gone in placement.gone:
        if gone.gone_at > horizon:
            yield Stay(
                placed_at=gone.running_since,
                running_since=gone.running_since,
                gone_at=gone.gone_at,
                usage=usage_of(gone, gone.usage),
            )
