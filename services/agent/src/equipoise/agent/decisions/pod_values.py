"""The values that are written into the cgroup of a pod, from its requests and limits."""

import msgspec

from equipoise.agent.state.watched_pods import BandPod

PERIOD = 100_000
"""Microseconds: the period of a CPU quota."""

MIN_QUOTA = 1_000
"""Microseconds: the kernel refuses a shorter quota."""

PAGE = 4_096
"""Bytes. The kernel rounds memory down to whole pages, so any other value would differ from the one that is read
back."""

MIN_SHARES, MAX_SHARES = 2, 262_144
"""The limits of CPU shares on cgroup v1. The kubelet gives the minimum to each best-effort pod."""


class PodValues(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and the CPU shares of one pod. None: no limit."""

    quota: int | None
    """Microseconds per period."""

    shares: int
    """CPU shares of cgroup v1. cgroup v2 has `weight_of` these shares instead."""

    memory_high: int | None
    """Bytes above which the kernel reclaims memory of the pod and slows it down. Nothing is killed."""


KUBELET_VALUES = PodValues(quota=None, shares=MIN_SHARES, memory_high=None)
"""The values with which the kubelet leaves a best-effort pod."""


def pod_values(pod: BandPod) -> PodValues:
    """The shares are the kubelet's for the same amount of cpu: only the proportions among best-effort pods count."""
    return PodValues(
        quota=None if pod.cpu_limit is None else quota_of(pod.cpu_limit),
        shares=MIN_SHARES if pod.cpu_request is None else _shares(pod.cpu_request),
        memory_high=None if pod.memory_limit is None else int(pod.memory_limit) // PAGE * PAGE,
    )


def quota_of(cores: float) -> int:
    return max(round(cores * PERIOD), MIN_QUOTA)


def weight_of(shares: int) -> int:
    """`cpu.weight` of cgroup v2: 2..262144 shares are 1..10000, as the kubelet computes it."""
    return 1 + (shares - MIN_SHARES) * 9_999 // (MAX_SHARES - MIN_SHARES)


def _shares(cores: float) -> int:
    return min(max(int(cores * 1_024), MIN_SHARES), MAX_SHARES)
