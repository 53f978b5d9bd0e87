"""Whether a label of series about pods names the node on which each pod runs.

An exporter on one node may have series of pods on all nodes, and Prometheus may add the label of its own node to them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from math import isfinite

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Sample
from equipoise.collector.state.placement import PodName

MAX_ON_OTHER_NODES = 0.01
"""The share of pods with series of other nodes than theirs, as those of a pod that was created again elsewhere. If
there are more, the label does not name the node on which a pod runs."""

NODES_PER_JOB = 10
"""The number of nodes of each scrape job whose pods are compared: the label has the same meaning in all its series."""

PODS_PER_NODE = 2_000
"""More pods than a node can have, even with many that have ended."""


def nodes_to_compare(samples: Iterable[Sample], names: NodeNames) -> list[str] | str:
    """Values of the label whose pods are compared: those with most pods. Or why the label names no node of a pod.

    `samples`: the number of pods of each node and scrape job.
    """
    by_job: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        if names.has(names.of(sample.node)):  # the series of other values are in every query
            if not isfinite(sample.value):
                return f"the number of pods of {sample.origin.text} is {sample.value}"
            by_job[sample.scrape.job][sample.origin.text] += int(sample.value)
    compared = [most for counts in by_job.values() for most in counts.most_common(NODES_PER_JOB)]
    for text, pods in compared:
        if pods > PODS_PER_NODE:
            return f"{pods} pods have series of {text}, more than a node can have"
    return sorted({text for text, _ in compared})


def why_on_other_nodes(samples: Iterable[Sample], nodes: Mapping[PodName, Collection[str]], names: NodeNames) -> str:
    """Why the label does not name the nodes of these pods; empty if it does.

    `nodes`: the node of each pod, and the one that a pod of this name has left. Others may have ended.
    """
    known, elsewhere = Counter[str](), Counter[str]()
    for sample in samples:
        if of_pod := nodes.get((sample.namespace, sample.pod)):
            known[sample.scrape.job] += 1
            elsewhere[sample.scrape.job] += names.of(sample.node) not in of_pod
    share = max((elsewhere[job] / count for job, count in known.items()), default=0.0)
    return "" if share <= MAX_ON_OTHER_NODES else f"{share:.0%} of the pods run on other nodes than their series name"
