"""The load of further resources (`load.resources`), as far as it is fresh."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import age_of, is_fresh
from equipoise.contracts.messages.utilization import NodeUtilization, ResourceStatus
from equipoise.contracts.messages.values.resources import Resources


def with_fresh_resources(usage: Resources, utilization: NodeUtilization, now: float, max_age: float) -> Resources:
    """The usage without the further resources whose newest raw sample is older than `max_age`.

    They have an age of their own, because their exporters are others than those of cpu and memory.
    """
    if usage.further is None:
        return usage
    fresh = {
        name: amount
        for name, amount in usage.further.items()
        if (status := utilization.resources.get(name)) is not None and is_fresh(status.sampled_at, now, max_age)
    }
    return usage if len(fresh) == len(usage.further) else msgspec.structs.replace(usage, further=fresh or None)


def resource_problems(
    utilization: NodeUtilization, labels: Mapping[str, str], load: LoadSettings, now: float
) -> dict[str, str]:
    """The further resources of a node with these labels, and why the load of each is unknown; empty if it is known.

    A collector with an earlier configuration does not have all of them: that a message lacks one does not mean that the
    node does.
    """

    def why(status: ResourceStatus) -> str:
        fresh = is_fresh(status.sampled_at, now, load.freshness.eviction)
        return status.unknown or ("" if fresh else f"newest sample is {age_of(status.sampled_at, now):.0f} s old")

    expected = (name for name, resource in load.resources.items() if resource.is_on(labels))
    missing = dict.fromkeys(expected, "the collector does not measure it")
    return missing | {name: why(status) for name, status in utilization.resources.items()}
