"""The load of further resources (`load.resources`), as far as it is fresh."""

import msgspec

from equipoise.contracts.load.correction import is_fresh
from equipoise.contracts.messages.utilization import NodeUtilization
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
