"""The figures of a report, from placement advice and cluster reviews. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

import msgspec

from equipoise.cli.cluster_now.waiting import NodesThatWait
from equipoise.cli.report.idle import IdleCapacity
from equipoise.contracts.messages.advice import AdvisedNode, ClusterReview, PlacementAdvice
from equipoise.contracts.messages.placement import NodeInHint
from equipoise.contracts.messages.values.resources import Resources

MIN_REGRET = 5.0
"""Points of the score: the default of `scorer.minSpread`. With less regret, a pod would not be placed elsewhere."""

MAX_ROWS = 10
"""Workloads and nodes in the tables."""

_COUNTED_FOR = 3_600.0
"""Seconds for which a pod counts on the node on which it would have been placed."""

_BUCKET = 10.0
"""The width of a bucket of the histogram, in points of the score."""

_RESOURCES = ("cpu", "memory")


class RegretSum(msgspec.Struct, kw_only=True):
    """The regret of the pods of a workload, or of a node."""

    name: str
    placements: int = 0
    elsewhere: int = 0
    """Pods that would have been placed elsewhere."""

    regret: float = 0.0
    """Points, summed over the pods that would have been placed elsewhere."""


class NodeAboveThreshold(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    seconds: float
    share: float
    """The share of the observed time, 0..1."""


class AvoidableLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Load that would not have been added to nodes above their high threshold.

    A placement is avoidable if the pod would have been placed elsewhere, its node was above a high threshold with the
    pod, and the best node would have stayed at or below all of its high thresholds. For each resource above the
    threshold, the avoidable load is the load of the pod, or the excess of the node if that is smaller. For an hour, the
    pod then counts on the better node instead, so that the same excess is not removed twice and the better node is not
    filled twice.
    """

    placements: int
    cpu: float
    """Points: 1 is 1 % of the node."""

    memory: float


class HintGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The placed pods whose hints rated their nodes alike."""

    node: NodeInHint | Literal["unknown"]
    placements: int
    rated: int
    elsewhere: int
    regret_median: float | None
    """Points, over the rated placements; None if there are none."""


class PlacementReport(msgspec.Struct, frozen=True, kw_only=True):
    since: float
    until: float
    placements: int
    """Placed pods with advice."""

    rated: int
    """Placements whose node has a rank."""

    elsewhere: int
    """Placements for which another node was at least 5 points better, and the scores would not have been neutral."""

    skipped: int
    """Placements without advice because they came too fast."""

    regret_median: float | None
    """Points, over all rated placements; None if there are none."""

    regret_p90: float | None
    regret_histogram: list[int]
    """Number of rated placements with a regret of 0 to below 10, 10 to below 20 … 90 to 100 points."""

    hints: list[HintGroup]
    """The groups that have pods."""

    hint_chance: float | None
    """The share (0..1) of the candidate nodes that a hint prefers, as the mean over the pods that were created with a
    hint. By chance, this share of the pods would be on preferred nodes. None if it is unknown."""

    workloads: list[RegretSum]
    nodes: list[RegretSum]
    observed: float
    """Seconds during which enough of the cluster was measured."""

    above_threshold: list[NodeAboveThreshold]
    """The nodes that were hot, longest first: above a threshold of load or pressure, and with `requirePressure` not
    only busy."""

    spread: Resources
    """Highest − lowest load (0..1) of all nodes, mean over the observed time."""

    deviation: Resources
    avoidable: AvoidableLoad
    policies: list[str]
    high: Resources
    """The latest high thresholds, as load 0..1."""

    next_level: str = ""
    """Which level of trust is advised after a week; empty if none is, or if it is unknown."""

    waiting: NodesThatWait | msgspec.UnsetType = msgspec.UNSET
    """The nodes on which pods wait now, and those that are only busy; unset if that is unknown."""

    idle: IdleCapacity | msgspec.UnsetType = msgspec.UNSET
    """What could have been offered to co-located pods, in a cluster with a reclaimer."""

    @property
    def hinted(self) -> int:
        """Pods that were created with a placement hint."""
        return sum(group.placements for group in self.hints if group.node not in ("none", "unknown"))

    def with_hint(self, node: NodeInHint | Literal["unknown"]) -> int:
        """The number of pods in one group."""
        return sum(group.placements for group in self.hints if group.node == node)


class _HintSum(msgspec.Struct, kw_only=True):
    placements: int = 0
    elsewhere: int = 0
    regrets: list[float] = []


GROUPS: Sequence[NodeInHint | Literal["unknown"]] = (*get_args(NodeInHint), "unknown")


class ReportTotals:
    """Sums up messages, which are added oldest first. It does not keep the messages about placements."""

    def __init__(self) -> None:
        self._placements = 0
        self._regrets: list[float] = []
        self._hints: dict[str, _HintSum] = {node: _HintSum() for node in GROUPS}
        self._hint_chances: list[float] = []
        self._elsewhere = 0
        self._workloads: dict[str, RegretSum] = {}
        self._nodes: dict[str, RegretSum] = {}
        self._moves: defaultdict[str, list[tuple[float, Resources]]] = defaultdict(list)
        self._avoidable_placements = 0
        self._avoidable: defaultdict[str, float] = defaultdict(float)
        self._reviews: dict[tuple[float, float], ClusterReview] = {}
        self._policies: set[str] = set()
        self._high = Resources()

    @property
    def empty(self) -> bool:
        return not self._placements and not self._reviews

    def add_advice(self, advice: PlacementAdvice) -> None:
        self._placements += 1
        self._policies.add(advice.policy)
        self._high = advice.high
        hinted = self._add_hint(advice)
        if advice.rank is None or advice.regret is None or advice.chosen is None or advice.best is None:
            return
        self._regrets.append(advice.regret)
        elsewhere = advice.rank > 1 and advice.regret >= MIN_REGRET and not advice.neutral
        workload = f"{advice.namespace}/{advice.pod} (no workload)" if advice.workload is None else str(advice.workload)
        for sums, name in ((self._workloads, workload), (self._nodes, advice.node)):
            row = sums.setdefault(name, RegretSum(name=name))
            row.placements += 1
            if elsewhere:
                row.elsewhere += 1
                row.regret += advice.regret
        hinted.regrets.append(advice.regret)
        if elsewhere:
            self._elsewhere += 1
            hinted.elsewhere += 1
            self._add_avoidable(advice.chosen, advice.best, advice.high, advice.advised_at)

    def _add_hint(self, advice: PlacementAdvice) -> _HintSum:
        hint = advice.hint
        group = self._hints["unknown" if hint is None else hint.node]
        group.placements += 1
        if hint is not None and hint.node != "none" and advice.considered:
            self._hint_chances.append(min(1.0, hint.preferred / advice.considered))
        return group

    def add_review(self, review: ClusterReview) -> None:
        self._reviews[review.since, review.until] = review
        self._high = review.high

    def report(self, since: float, until: float, *, require_pressure: bool = False) -> PlacementReport:
        """`require_pressure`: whether the descheduler moves no pod away from a node that is only busy."""
        reviews = without_overlap(self._reviews.values())
        observed = sum(review.seen for review in reviews)
        over: defaultdict[str, float] = defaultdict(float)
        for review in reviews:
            busy_only = review.over_without_pressure if require_pressure else {}
            for node, seconds in (*review.over.items(), *review.under_with_pressure.items()):
                over[node] += seconds
            for node, seconds in busy_only.items():
                over[node] -= seconds
        regrets = sorted(self._regrets)
        buckets = Counter(min(9, int(regret / _BUCKET)) for regret in regrets)
        return PlacementReport(
            since=since,
            until=until,
            placements=self._placements,
            rated=len(regrets),
            elsewhere=self._elsewhere,
            skipped=sum(review.skipped for review in reviews),
            regret_median=_quantile(regrets, 0.5),
            regret_p90=_quantile(regrets, 0.9),
            regret_histogram=[buckets[index] for index in range(10)],
            hints=[
                HintGroup(
                    node=node,
                    placements=group.placements,
                    rated=len(group.regrets),
                    elsewhere=group.elsewhere,
                    regret_median=_quantile(sorted(group.regrets), 0.5),
                )
                for node in GROUPS
                if (group := self._hints[node]).placements
            ],
            hint_chance=round(fmean(self._hint_chances), 4) if self._hint_chances else None,
            workloads=_largest(self._workloads),
            nodes=_largest(self._nodes),
            observed=observed,
            above_threshold=[
                NodeAboveThreshold(node=node, seconds=round(seconds, 1), share=round(seconds / observed, 4))
                for node, seconds in sorted(over.items(), key=lambda item: (-item[1], item[0]))
                if seconds > 0.0
            ],
            spread=_mean((review.spread, review.seen) for review in reviews),
            deviation=_mean((review.deviation, review.seen) for review in reviews),
            avoidable=AvoidableLoad(
                placements=self._avoidable_placements,
                cpu=round(100.0 * self._avoidable["cpu"], 1),
                memory=round(100.0 * self._avoidable["memory"], 1),
            ),
            policies=sorted(self._policies),
            high=self._high,
        )

    def _add_avoidable(self, chosen: AdvisedNode, best: AdvisedNode, high: Resources, now: float) -> None:
        """Add the load that would have been avoided on the best node (see `AvoidableLoad`)."""
        moved_to_chosen, moved_to_best = self._moved_to(chosen.node, now), self._moved_to(best.node, now)
        avoided = {}
        for resource in _RESOURCES:
            threshold = getattr(high, resource)
            load = getattr(best.with_pod, resource)
            # The best node would not stay below its threshold, so nothing is avoidable.
            if threshold is not None and (load is None or load + moved_to_best[resource] > threshold):
                return
            before, after = getattr(chosen.load, resource), getattr(chosen.with_pod, resource)
            if threshold is not None and before is not None and after is not None:
                avoided[resource] = min(after - before, after + moved_to_chosen[resource] - threshold)
        avoided = {resource: amount for resource, amount in avoided.items() if amount > 0}
        if avoided:
            self._avoidable_placements += 1
            for resource, amount in avoided.items():
                self._avoidable[resource] += amount
            self._moves[chosen.node].append((now, _load_of_pod(chosen, -1.0)))
            self._moves[best.node].append((now, _load_of_pod(best, 1.0)))

    def _moved_to(self, node: str, now: float) -> dict[str, float]:
        """The load of earlier pods that count on this node instead (positive) or no longer (negative)."""
        moves = self._moves[node] = [(at, load) for at, load in self._moves[node] if now - at < _COUNTED_FOR]
        return {name: sum(getattr(load, name) or 0.0 for _, load in moves) for name in _RESOURCES}


def without_overlap(reviews: Iterable[ClusterReview]) -> list[ClusterReview]:
    """Reviews that do not overlap. Several scorers review the same hour; the review that observed most is kept."""
    kept: list[ClusterReview] = []
    for review in sorted(reviews, key=lambda review: (-review.seen, review.since)):
        if all(review.until <= other.since or other.until <= review.since for other in kept):
            kept.append(review)
    return kept


def _load_of_pod(node: AdvisedNode, sign: float) -> Resources:
    """The load that the pod adds to the node, times `sign`."""

    def load(resource: str) -> float | None:
        before, after = getattr(node.load, resource), getattr(node.with_pod, resource)
        return None if before is None or after is None else sign * (after - before)

    return Resources(cpu=load("cpu"), memory=load("memory"))


def _largest(sums: Mapping[str, RegretSum]) -> list[RegretSum]:
    rows = [msgspec.structs.replace(row, regret=round(row.regret, 1)) for row in sums.values() if row.elsewhere]
    return sorted(rows, key=lambda row: (-row.regret, row.name))[:MAX_ROWS]


def _mean(weighted: Iterable[tuple[Resources, float]]) -> Resources:
    """The weighted mean per resource; unknown values do not count."""
    all_weighted = list(weighted)

    def mean(resource: str) -> float | None:
        known = [(value, weight) for load, weight in all_weighted if (value := getattr(load, resource)) is not None]
        total = sum(weight for _, weight in known)
        return round(sum(value * weight for value, weight in known) / total, 4) if total else None

    return Resources(cpu=mean("cpu"), memory=mean("memory"))


def _quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
