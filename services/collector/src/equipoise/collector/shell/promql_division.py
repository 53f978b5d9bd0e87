"""Limits PromQL of the user to the nodes that this replica measures, where that does not change its result."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from equipoise.collector.decisions.further.divided_promql import UndividedPromqlError, divide_promql
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import NodeMatcher, Origin, Sample, Subject
from equipoise.collector.shell.node_label_search import NodeLabelSearch
from equipoise.collector.sources import PromqlSource
from equipoise.collector.state.search_times import SearchTimes

POD_KEYS = (("namespace", "pod"), ("exported_namespace", "exported_pod"))
"""The labels that name a pod. Its series are those of one node, so a step that keeps pods apart keeps nodes apart."""

MAX_PODS_OF_SEVERAL_NODES = 0.01
"""The largest share of names of pods with series of several nodes. A pod that was recreated on another node has them.
If there are more, the label does not name the node on which a pod runs."""


@dataclass(kw_only=True)
class PromqlDivision:
    """One expression about nodes, or about pods. A small query about all nodes finds the label of its series."""

    source: PromqlSource
    subject: Subject
    labels: Sequence[str]
    """The labels that may name the node."""

    times: SearchTimes

    undivided: str = ""
    """Why the expression is about all nodes; empty while it is limited, and if it has no series."""

    def __post_init__(self) -> None:
        self._search = NodeLabelSearch(times=self.times)

    async def matcher(
        self,
        promql: str,
        raw: Sequence[str],
        at: float,
        nodes: Collection[str],
        names: NodeNames,
        cluster: Collection[str],
    ) -> NodeMatcher | None:
        """The series of these nodes; without values if they have none. None: the query is about all nodes.

        `raw`: the queries about the raw samples of the expression; `cluster`: the names of all nodes of the cluster.
        """
        if why := _why_undivided(promql, self._keys(self.labels)):
            self.undivided = why
            return None
        matcher = await self._search.matcher(lambda: self._samples(promql, raw, at), at, nodes, names, cluster)
        combined = "" if matcher is None else _why_undivided(promql, self._keys([matcher.label]))
        self.undivided = self._search.undivided or combined
        return None if self.undivided else matcher

    def _keys(self, labels: Sequence[str]) -> list[tuple[str, ...]]:
        """The sets of labels, each of which may keep the series of a node apart from others."""
        return [*((label,) for label in labels), *(POD_KEYS if self.subject == "pod" else ())]

    async def _samples(self, promql: str, raw: Sequence[str], at: float) -> list[Sample] | str:
        """A sample of each node; or why there is no label for all."""
        if self.subject == "pod":
            return await self._samples_of_pods(promql, at)
        samples = [
            sample
            for query in (promql, *raw)
            for sample in await self.source.samples(query, "node", at=at, node_labels=self.labels)
        ]
        return [_of_any_job(sample) for sample in samples]

    async def _samples_of_pods(self, promql: str, at: float) -> list[Sample] | str:
        selectors = divide_promql(promql, ()).selector_texts()
        samples: list[Sample] = []
        for selector in selectors:
            samples += await self._unnamed(f"count by ({', '.join(self.labels)}) ({selector})", at)
        labels = {sample.origin.label for sample in samples}
        keys = next((keys for keys in self._keys(sorted(labels)) if not _why_undivided(promql, [keys])), None)
        if keys in POD_KEYS and len(labels) == 1:
            by_pod, by_node = f"count by ({', '.join(keys)})", f"count by ({', '.join((*keys, *labels))})"
            for selector in selectors:
                share = f"count({by_pod} ({by_node} ({selector})) > 1) / count({by_pod} ({selector}))"
                several = max((sample.value for sample in await self._unnamed(share, at)), default=0.0)
                if several > MAX_PODS_OF_SEVERAL_NODES:
                    return f"{several:.0%} of the pods have series with several values of the label {min(labels)}"
        return [_of_any_job(sample) for sample in samples]

    async def _unnamed(self, promql: str, at: float) -> list[Sample]:
        return await self.source.samples(promql, "node", at=at, node_labels=self.labels, unnamed=True)


def _why_undivided(promql: str, alternatives: Sequence[tuple[str, ...]]) -> str:
    """Why the expression may combine series with different values of these labels, whichever of the alternatives is
    used; empty if it does not."""
    reasons = []
    for keys in alternatives:
        try:
            divide_promql(promql, keys)
        except UndividedPromqlError as error:
            reasons.append(str(error))
        else:
            return ""
    return reasons[0]


def limited(promql: str, matcher: NodeMatcher | None) -> str:
    """The PromQL limited by a matcher that `PromqlDivision` returned for it."""
    return promql if matcher is None else divide_promql(promql, ()).limited(matcher)


def _of_any_job(sample: Sample) -> Sample:
    """The sample without its scrape: all scrapes of an expression of the user count."""
    origin = Origin(node=sample.origin.node, label=sample.origin.label, text=sample.origin.text)
    return msgspec.structs.replace(sample, origin=origin)
