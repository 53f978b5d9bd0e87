"""The taint of nodes that consolidation is emptying.

Its effect is PreferNoSchedule: kube-scheduler places a pod there only if no other node has room for it. Cluster
Autoscaler marks its candidates for removal in the same way. The key is not that of an autoscaler, so that nobody
removes the taint of another program.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from equipoise.contracts.kubernetes.objects.node import Taint

CONSOLIDATION = "equipoise.dev/consolidation"
EFFECT = "PreferNoSchedule"

_TIME = "%Y%m%dT%H%M%SZ"
"""ISO 8601 without the characters that the value of a taint may not contain."""


def consolidation_taint(since: float) -> Taint:
    """The taint of a node that is being emptied since this time (Unix seconds)."""
    return Taint(key=CONSOLIDATION, value=datetime.fromtimestamp(since, UTC).strftime(_TIME), effect=EFFECT)


def is_consolidation(taint: Taint) -> bool:
    """Whether the taint is one of Equipoise. One with another effect was written by someone else."""
    return taint.key == CONSOLIDATION and taint.effect == EFFECT


def emptying_text(since: float | None) -> str:
    """What is shown of a node that is being emptied since this time (Unix seconds; None: unknown)."""
    text = "being emptied by consolidation"
    return text if since is None else f"{text} since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M} UTC"


def tainted_text(taints: Iterable[Taint]) -> str:
    """The same by the taints of a node; empty without the taint."""
    taints = list(taints)
    return emptying_text(emptied_since(taints)) if any(map(is_consolidation, taints)) else ""


def emptied_since(taints: Iterable[Taint]) -> float | None:
    """The time (Unix seconds) since which a node is being emptied, by its taint. None without the taint, or if its
    value is no time."""
    for taint in filter(is_consolidation, taints):
        try:
            return datetime.strptime(taint.value, _TIME).replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None
    return None
