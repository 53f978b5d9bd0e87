"""Detects that a source measures another cluster, by names that the API server does not know.

Prometheus knows nothing of a cluster but the labels of its series. Nodes of several clusters may have the same names,
pods of Deployments do not, because a part of their names is random.
"""

from collections.abc import Collection, Container
from ipaddress import ip_address

from equipoise.collector.state.placement import PodName

MANY = 10
"""The names of fewer pods prove nothing: those of StatefulSets are the same in every cluster."""

FEW = 3
"""The number of unknown nodes below which one known node suffices to trust the source."""

ADVICE = "set collector.prometheus.matchers, or the url of the Prometheus of this cluster"
EXAMPLES = 3


def nodes_of_another_cluster(sampled: Collection[str], known: Container[str]) -> str:
    """Why the values of these nodes must not be used; "" when at least half of the names are known.

    A few nodes may have been deleted before this process began, while the source still has samples of them.
    """
    unknown = sorted(name for name in sampled if name and name not in known and not _is_address(name))
    if not unknown:  # usually: parsing all names as addresses takes 25 ms for 5,000 nodes
        return ""
    named = sum(bool(name) and not _is_address(name) for name in sampled)
    if 2 * len(unknown) <= named or len(unknown) < min(FEW, named):
        return ""
    examples = ", ".join(unknown[:EXAMPLES])
    return f"reports nodes of another cluster ({len(unknown)} of {named} are unknown here): {examples}; {ADVICE}"


def pods_of_another_cluster(
    sampled: Collection[PodName], known: Container[PodName], *, measured: int, settled: int
) -> str:
    """The same as `nodes_of_another_cluster`, for pods. `settled`: the number of pods of this cluster that have run for
    long enough; `measured`: the number of these that have a value."""
    unknown = sorted(f"{namespace}/{name}" for namespace, name in sampled if (namespace, name) not in known)
    if len(sampled) < MANY or settled < MANY or 2 * len(unknown) <= len(sampled) or 2 * measured >= settled:
        return ""
    examples = ", ".join(unknown[:EXAMPLES])
    return (
        f"reports pods of another cluster, whose nodes have the same names ({len(unknown)} of {len(sampled)} pods are "
        f"unknown here): {examples}; {ADVICE}"
    )


def _is_address(name: str) -> bool:
    """Whether a series names its node only by its address: it may be a node of this cluster."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
