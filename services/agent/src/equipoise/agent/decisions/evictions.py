"""Which batch pods are evicted when the memory or the CPU time of the node does not suffice, and when.

A pod releases nothing before it has ended. What terminating pods use therefore counts as released: otherwise every
round until then would evict more.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.agent.state.watched_pods import BandPod
from equipoise.contracts.configuration.settings import Section

Percentage = Annotated[float, Meta(gt=0, le=100)]
Seconds = Annotated[float, Meta(ge=1)]


class MemoryEviction(Section, frozen=True, kw_only=True):
    """The conditions under which batch pods are evicted because the node runs out of memory."""

    threshold: Percentage | None = 90.0
    """Percent of the node's memory in use (MemTotal − MemAvailable) from which pods are evicted. null: never. The
    kubelet evicts on its own only when 100 MiB are left."""

    release: Percentage = 5.0
    """Evictions continue until the used memory is this many percentage points below the threshold."""

    cooldown: Seconds = 10.0
    """Seconds between two evictions for this reason. Not divided by time compression."""


class CpuEviction(Section, frozen=True, kw_only=True):
    """The conditions under which batch pods are evicted when a limit on all of them leaves them too little CPU time."""

    satisfaction_lower: Annotated[float, Meta(gt=0, le=60)] | None = None
    """The satisfaction, in percent, at or below which pods are evicted. It is the limit of all best-effort pods /
    Σ batch-cpu of the pods. null: never."""

    satisfaction_upper: Annotated[float, Meta(gt=60, lt=100)] = 80.0
    """Evictions continue until the satisfaction reaches this value, in percent."""

    usage: Percentage = 90.0
    """Percent of their limit that best-effort pods must use before any is evicted: otherwise they do not need more."""

    window: Seconds = 60.0
    """Seconds for which these conditions must last. Not divided by time compression."""

    cooldown: Seconds = 20.0
    """Seconds between two evictions for this reason. Not divided by time compression."""


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to be evicted."""

    pod: BandPod
    reason: Literal["memory", "cpu"]
    text: str
    """The explanation for people: which resource is short, and by how much."""


def memory_to_release(rules: MemoryEviction, used: float, total: float) -> float:
    """Bytes that evictions should release; 0: the node is below the threshold."""
    if rules.threshold is None or total <= 0 or used < total * rules.threshold / 100:
        return 0.0
    return used - total * max(rules.threshold - rules.release, 0.0) / 100


def memory_victims(
    rules: MemoryEviction, used: float, total: float, pods: Mapping[str, BandPod], usage: Mapping[str, float]
) -> list[Victim]:
    """The pods to evict until enough memory is released: those of the lowest priority first, then those with the
    highest usage. `usage`: bytes by uid."""
    needed = memory_to_release(rules, used, total)
    if not needed:
        return []
    text = f"{used / total:.0%} of the node's memory are in use, the threshold is {rules.threshold:g}%"
    chosen = _until_released(needed, pods, lambda pod: usage.get(pod.uid, 0.0), lambda pod: usage.get(pod.uid, 0.0))
    return [Victim(pod=pod, reason="memory", text=text) for pod in chosen]


def cpu_to_release(rules: CpuEviction, limit: float | None, requested: float, used: float) -> float:
    """Cores of requests that evictions should release; 0: nothing is evicted. `limit`: cores that all best-effort pods
    together may use; None: there is no limit."""
    if rules.satisfaction_lower is None or limit is None or requested <= 0:
        return 0.0
    satisfaction = limit / requested
    if satisfaction > rules.satisfaction_lower / 100 or used < limit * rules.usage / 100:
        return 0.0
    return requested * (rules.satisfaction_upper / 100 - satisfaction)


def cpu_victims(
    rules: CpuEviction, limit: float | None, used: float, pods: Mapping[str, BandPod], usage: Mapping[str, float]
) -> list[Victim]:
    """The pods to evict until enough requests are released: those of the lowest priority first, then those with the
    highest usage relative to their request. `usage`: cores by uid."""
    requested = requested_cores(pods)
    needed = cpu_to_release(rules, limit, requested, used)
    if not needed or limit is None:
        return []
    text = f"{limit:.2f} of {requested:.2f} requested cores are left to best-effort pods"
    chosen = _until_released(
        needed,
        pods,
        lambda pod: pod.cpu_request or 0.0,
        lambda pod: usage.get(pod.uid, 0.0) / pod.cpu_request if pod.cpu_request else 0.0,
    )
    return [Victim(pod=pod, reason="cpu", text=text) for pod in chosen]


def requested_cores(pods: Mapping[str, BandPod]) -> float:
    return sum(pod.cpu_request or 0.0 for pod in pods.values())


def _until_released(
    needed: float,
    pods: Mapping[str, BandPod],
    released: Callable[[BandPod], float],
    weight: Callable[[BandPod], float],
) -> list[BandPod]:
    """Pods by priority, then by `weight`, until they release `needed`. Pods that release nothing are not evicted."""
    needed -= sum(released(pod) for pod in pods.values() if pod.terminating)
    chosen: list[BandPod] = []
    order = sorted(pods.values(), key=lambda pod: (pod.priority, -weight(pod), pod.uid))
    for pod in order:
        if needed <= 0:
            break
        if pod.evictable and not pod.terminating and released(pod) > 0:
            chosen.append(pod)
            needed -= released(pod)
    return chosen
