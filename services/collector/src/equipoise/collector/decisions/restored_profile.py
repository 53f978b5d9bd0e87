"""Restores a workload's 24-hour profile from its annotation, for a source that has not kept that day.

It fills slots that were not measured. Anyone who may edit a workload can write the annotation, so it is checked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.kubernetes.annotations import read_workload_usage
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.values.resources import Resources

MAX_AGE = 14 * 86_400.0
"""Seconds after which a profile is not used any more."""


def restored_profile(
    annotations: Mapping[str, str], now: float, max_usage: Resources
) -> tuple[Sequence[Resources] | None, str]:
    """Usage per replica by slot (UTC); or None, and the reason: the annotation is absent, too old or invalid.

    A profile above `max_usage` (cores, bytes; the largest capacity of a node) is invalid; None in it means no limit.
    """
    usage, why = read_workload_usage(annotations)
    if usage is None:
        return None, why
    age = now - usage.sampled_at.timestamp()
    if age > MAX_AGE:
        return None, f"it is {age / 86_400:.0f} days old"
    if age < -CLOCK_TOLERANCE:
        return None, f"its time lies {-age:.0f} s in the future"
    limits = {"cpu": max_usage.cpu, "memory": max_usage.memory}
    profiles = {resource: slots for resource, slots in usage.profile.items() if resource in limits}
    if not profiles:
        return None, "it has no profile"
    for resource, slots in profiles.items():
        limit, largest = limits[resource], max((slot for slot in slots if slot is not None), default=0.0)
        if limit is not None and largest > limit:
            return None, f"{resource}: {largest:g} per replica is more than any node has"
    unknown = [None] * SLOTS
    return [
        Resources(cpu=cpu, memory=memory)
        for cpu, memory in zip(profiles.get("cpu", unknown), profiles.get("memory", unknown), strict=True)
    ], ""


def largest_capacity(capacities: Iterable[Resources]) -> Resources:
    """The largest known capacity of a node, per resource; unknown if none is known."""
    nodes = list(capacities)
    return Resources(
        cpu=max((node.cpu for node in nodes if node.cpu is not None), default=None),
        memory=max((node.memory for node in nodes if node.memory is not None), default=None),
    )


def restore_problem(forbidden: Collection[str], failed: Collection[str]) -> str | None:
    """Why annotations cannot be read: resources that may not be listed, and other errors. None: they were read."""
    reasons = list(failed)
    if forbidden:
        reasons.append(
            f"forbidden to list {', '.join(forbidden)}: apply k8s/base/collector.yaml (with Helm: upgrade the release)"
        )
    if not reasons:
        return None
    return f"cannot read profiles from workloads: {'; '.join(reasons)} (slots that were not measured stay unknown)"
