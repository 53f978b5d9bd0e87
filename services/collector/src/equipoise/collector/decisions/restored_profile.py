"""A workload's day as its annotation remembers it, for a collector whose source has not seen that day.

It stands in where nothing was measured. Whoever may edit a workload may write what they like there, so it is believed
within limits only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from equipoise.contracts.kubernetes.annotations import SLOTS, read_workload_usage
from equipoise.contracts.messages.resources import Resources

LIFE = 14 * 86_400.0
"""Seconds after which a day says nothing of those to come."""

BELIEVED_AHEAD = 15.0
"""Seconds that it may come from the future: clocks of Prometheus and replicas differ."""


def remembered_day(
    annotations: Mapping[str, str], now: float, ceiling: Resources
) -> tuple[Sequence[Resources] | None, str]:
    """Per replica and slot (UTC) what stands on a workload; or None and why: absent, too old, not to be believed.

    No replica uses more than `ceiling`, in cores and bytes: where that is unknown, any amount may be.
    """
    usage, why = read_workload_usage(annotations)
    if usage is None:
        return None, why
    age = now - usage.sampled_at.timestamp()
    if age > LIFE:
        return None, f"it is {age / 86_400:.0f} days old"
    if age < -BELIEVED_AHEAD:
        return None, f"it comes from the future, {-age:.0f} s from now"
    limits = {"cpu": ceiling.cpu, "memory": ceiling.memory}
    known = {resource: slots for resource, slots in usage.profile.items() if resource in limits}
    for resource, slots in known.items():
        limit, most = limits[resource], max((slot for slot in slots if slot is not None), default=0.0)
        if limit is not None and most > limit:
            return None, f"{resource}: {most:g} per replica is more than any node has"
    nothing = [None] * SLOTS
    if not known:
        return None, "it has no profile"
    return [
        Resources(cpu=cpu, memory=memory)
        for cpu, memory in zip(known.get("cpu", nothing), known.get("memory", nothing), strict=True)
    ], ""


def largest(capacities: Iterable[Resources]) -> Resources:
    """The most that any node has, per resource; unknown if none is known."""
    every = list(capacities)
    return Resources(
        cpu=max((each.cpu for each in every if each.cpu is not None), default=None),
        memory=max((each.memory for each in every if each.memory is not None), default=None),
    )


def unread(forbidden: Collection[str], failed: Collection[str]) -> str | None:
    """What keeps us from reading annotations, as people read it: resources we may not list, and other errors."""
    reasons = list(failed)
    if forbidden:
        reasons.append(f"forbidden to list {', '.join(forbidden)}: apply k8s/base/collector.yaml")
    if not reasons:
        return None
    return f"profiles on workloads: {'; '.join(reasons)} (hours that were not measured are unknown meanwhile)"
