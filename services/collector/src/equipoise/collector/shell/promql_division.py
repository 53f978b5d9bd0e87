"""Limits PromQL of the user to the nodes that this replica measures, where that does not change its result."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from equipoise.collector.decisions.further.divided_promql import DividedPromql, UndividedPromqlError, divide_promql
from equipoise.collector.decisions.further.pod_nodes import MAX_ON_OTHER_NODES, nodes_to_compare, why_on_other_nodes
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import NodeMatcher, Origin, Sample, Subject
from equipoise.collector.shell.node_label_search import NodeLabelSearch
from equipoise.collector.sources import PromqlSource
from equipoise.collector.state.placement import PodName
from equipoise.collector.state.search_times import SearchTimes
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, in_batches

POD = ("namespace", "pod")
"""The labels that name a pod. Its series are those of one node, so a step that keeps pods apart keeps nodes apart."""

EXPORTED = ("exported_namespace", "exported_pod")
"""The labels of the pod that an exporter names, if those of `POD` name the pod of the exporter itself."""

TEXTS = 1_000
"""The number of queries that are kept as they were read: a few of each resource and window."""

NodesOfPods = Callable[[Collection[PodName]], Awaitable[Mapping[PodName, Collection[str]]]]
"""The node of each of these pods, and the one that a pod of this name has left."""


@dataclass(kw_only=True)
class PromqlDivision:
    """One expression about nodes, or about pods. A small query about all nodes finds the label of its series."""

    source: PromqlSource
    subject: Subject
    labels: Sequence[str]
    """The labels that may name the node."""

    times: SearchTimes
    nodes_of: NodesOfPods

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
        if why := self._why_undivided(promql, self.labels):
            self.undivided = why
            return None
        matcher = await self._search.matcher(lambda: self._samples(promql, raw, at, names), at, nodes, names, cluster)
        combined = "" if matcher is None else self._why_undivided(promql, [matcher.label])
        self.undivided = self._search.undivided or combined
        return None if self.undivided else matcher

    def _why_undivided(self, promql: str, labels: Sequence[str]) -> str:
        """Why the expression may combine series of several nodes, whichever of these labels names the node."""
        if self.subject == "node":
            return _why_undivided(promql, tuple((label,) for label in labels))
        why = _why_undivided(promql, (*((label,) for label in labels), POD), POD)
        alternatives = (*((label,) for label in labels), EXPORTED)
        return why and ("" if not _why_undivided(promql, alternatives, POD, exported=True) else why)

    async def _samples(self, promql: str, raw: Sequence[str], at: float, names: NodeNames) -> list[Sample] | str:
        """A sample of each node; or why there is no label for all."""
        if self.subject == "pod":
            return await self._samples_of_pods(promql, at, names)
        samples = await self.source.samples(promql, "node", at=at, node_labels=self.labels)
        for query in raw:
            samples = [*samples, *await self._unnamed(query, at)]
        return [_of_any_job(sample) for sample in samples]

    async def _samples_of_pods(self, promql: str, at: float, names: NodeNames) -> list[Sample] | str:
        strict = (*((label,) for label in self.labels), POD)
        pods = (EXPORTED, POD) if _why_undivided(promql, strict, POD) else (POD,)
        by_node = f"job, {', '.join(self.labels)}"
        selectors = _read(promql).selector_texts()
        counts = {
            selector: await self._unnamed(
                f"count by ({by_node}) (count by ({', '.join(pods[0])}, {by_node}) ({selector}))", at
            )
            for selector in selectors
        }
        samples = [_of_any_job(sample) for of_selector in counts.values() for sample in of_selector]
        labels = {sample.origin.label for sample in samples}
        if len(labels) == 1 and (label := labels.pop()):
            for selector, of_selector in counts.items():
                for pod in pods:
                    if why := await self._why_not_of_pods(
                        pod, label, selector, of_selector, at, names, is_required=pod == pods[0]
                    ):
                        return f"{selector}: {why}"
        return samples

    async def _why_not_of_pods(
        self,
        pod: tuple[str, str],
        label: str,
        selector: str,
        counts: Sequence[Sample],
        at: float,
        names: NodeNames,
        *,
        is_required: bool,
    ) -> str:
        """Why the label does not name the node of each pod in the series of a selector; empty if it does.

        `pod`: the labels that name it; `counts`: the number of pods by node and scrape job; `is_required`: whether a
        series must name one.
        """
        if not counts:
            return "there are no series, so their label is not known"
        by_pod, of_pods = ", ".join(pod), _read(selector).with_condition(f'{pod[1]}!=""')
        query = (
            f"count(count by ({by_pod}) (count by ({by_pod}, {label}) ({of_pods})) > 1) / "
            f"count(count by ({by_pod}) ({of_pods}))"
        )
        several = [sample.value for sample in await self._unnamed(query, at)]
        if not all(share <= MAX_ON_OTHER_NODES for share in several):
            return f"{max(several):.0%} of the pods have series with several values of the label {label}"
        texts = nodes_to_compare(counts, names)
        if isinstance(texts, str):
            return texts
        placed: list[Sample] = []
        async for some in in_batches(texts, NODES_PER_BATCH):
            query = f"count by ({by_pod}, job, {label}) ({limited(selector, NodeMatcher(label, tuple(some)))})"
            for name, written in zip(pod, POD, strict=True):
                query = query if name == written else f'label_replace({query}, "{written}", "$1", "{name}", "(.+)")'
            placed += await self.source.samples(query, "pod", at=at, node_labels=[label])
        nodes = await self.nodes_of({(sample.namespace, sample.pod) for sample in placed})
        if texts and not nodes and is_required:
            return "no series names a pod of this cluster"
        return why_on_other_nodes(placed, nodes, names)

    async def _unnamed(self, promql: str, at: float) -> list[Sample]:
        return await self.source.samples(promql, "node", at=at, node_labels=self.labels, unnamed=True)


@lru_cache(TEXTS)
def _why_undivided(
    promql: str, alternatives: tuple[tuple[str, ...], ...], kept: tuple[str, ...] = (), *, exported: bool = False
) -> str:
    """Why the expression may combine series with different values of these labels, whichever of the alternatives is
    used; empty if it does not."""
    reasons = []
    for keys in alternatives:
        try:
            divide_promql(promql, keys, kept, exported=exported)
        except UndividedPromqlError as error:
            reasons.append(str(error))
        else:
            return ""
    return reasons[0]


@lru_cache(TEXTS)
def _read(promql: str) -> DividedPromql:
    return divide_promql(promql, ())


def limited(promql: str, matcher: NodeMatcher | None) -> str:
    """The PromQL limited by a matcher that `PromqlDivision` returned for it."""
    return promql if matcher is None else _read(promql).limited(matcher)


def _of_any_job(sample: Sample) -> Sample:
    """The sample without its scrape: all scrapes of an expression of the user count."""
    origin = Origin(node=sample.origin.node, label=sample.origin.label, text=sample.origin.text)
    return msgspec.structs.replace(sample, origin=origin)
