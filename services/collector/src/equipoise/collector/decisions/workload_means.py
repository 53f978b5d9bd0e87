"""Pods folded by workload: what one replica uses."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.resources import Resources


class MeasuredPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod's usage in one window."""

    workload: Workload
    usage: Resources
    sampled_at: float
    """Newest raw sample of its node."""


class Fold(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The pods of one workload in one window."""

    usage: Resources
    """Per replica."""

    replicas: int
    sampled_at: float
    """The oldest of the pods' newest samples."""


def fold(pods: Iterable[MeasuredPod]) -> dict[Workload, Fold]:
    """Mean usage per measured replica; a resource that no replica was measured in is unknown."""
    groups: dict[Workload, list[MeasuredPod]] = {}
    for pod in pods:
        groups.setdefault(pod.workload, []).append(pod)
    return {
        workload: Fold(
            usage=mean_of([pod.usage for pod in group]),
            replicas=len(group),
            sampled_at=min(pod.sampled_at for pod in group),
        )
        for workload, group in groups.items()
    }


def mean_of(amounts: Sequence[Resources]) -> Resources:
    """Per resource the mean of those that are known."""
    cpu = [amount.cpu for amount in amounts if amount.cpu is not None]
    memory = [amount.memory for amount in amounts if amount.memory is not None]
    return Resources(cpu=fmean(cpu) if cpu else None, memory=fmean(memory) if memory else None)
