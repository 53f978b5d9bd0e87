"""From advice and reviews to the figures of a report. Pure: messages come in, one report comes out."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from equipoise.contracts.messages.advice import AdvisedNode, ClusterReview, PlacementAdvice
from equipoise.contracts.messages.resources import Resources

LEAST_REGRET = 5.0
"""Points of the policy below which nobody would have gone elsewhere: the default of `scorer.minSpread`."""

MOST = 10
"""Workloads and nodes that are named."""

_MOVE_LIFE = 3_600.0
"""Seconds for which a pod that would have gone elsewhere is taken to be there when later ones are counted."""

_BUCKET = 10.0

_RESOURCES = ("cpu", "memory")


class Regretful(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, or a node that pods were placed on."""

    name: str
    placements: int
    elsewhere: int
    regret: float
    """Points of the policy, summed over those that would have gone elsewhere."""


class OverMark(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    seconds: float
    share: float
    """Of the time that was seen, 0..1."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What the advice would have kept off nodes above their high mark.

    Counted is a placement that would have gone elsewhere, whose node was above its high mark with the pod, and whose
    best node would have stayed at or below all of its own. Of each resource over its mark counts as much as the pod
    brought, but no more than the node was above the mark. Once counted, the pod is taken to be on the better node for
    an hour, so that the same excess is not taken off twice and no better node is filled twice.
    """

    placements: int
    cpu: float
    """Points: 1 is 1 % of the node that the load would not have come to."""

    memory: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    since: float
    until: float
    placements: int
    """Placed pods that were told of."""

    judged: int
    """Those of which a rank could be said."""

    elsewhere: int
    """Those with a better node, at least 5 points better, where the answer would have told nodes apart."""

    skipped: int
    """Placements that came too fast to be judged."""

    regret_median: float | None
    """Points of the policy over all that were judged; None when none was."""

    regret_p90: float | None
    regrets: list[int]
    """How many judged placements had a regret of 0 to below 10, 10 to below 20 … 90 to 100 points."""

    workloads: list[Regretful]
    nodes: list[Regretful]
    seen: float
    """Seconds of which enough was known of the fleet."""

    over: list[OverMark]
    """Nodes that were above their high mark, the longest first."""

    spread: Resources
    """Highest − lowest load (0..1) of all nodes, on average over the time seen."""

    deviation: Resources
    saved: Saved
    policies: list[str]
    high: Resources
    """The high marks that were told last, as load 0..1."""


class _Sum(msgspec.Struct, kw_only=True):
    placements: int = 0
    elsewhere: int = 0
    regret: float = 0.0


class Figures:
    """Adds up messages as they are read, oldest first; keeps no message of a placement."""

    def __init__(self) -> None:
        self._placements = 0
        self._regrets: list[float] = []
        self._elsewhere = 0
        self._workloads: defaultdict[str, _Sum] = defaultdict(_Sum)
        self._nodes: defaultdict[str, _Sum] = defaultdict(_Sum)
        self._moves: defaultdict[str, list[tuple[float, Resources]]] = defaultdict(list)
        self._saved_by = 0
        self._saved: defaultdict[str, float] = defaultdict(float)
        self._reviews: dict[tuple[float, float], ClusterReview] = {}
        self._policies: set[str] = set()
        self._high = Resources()

    @property
    def empty(self) -> bool:
        return not self._placements and not self._reviews

    def advice(self, said: PlacementAdvice) -> None:
        self._placements += 1
        self._policies.add(said.policy)
        self._high = said.high
        if said.rank is None or said.regret is None or said.chosen is None or said.best is None:
            return
        self._regrets.append(said.regret)
        elsewhere = said.rank > 1 and said.regret >= LEAST_REGRET and not said.neutral
        workload = f"{said.namespace}/{said.pod} (alone)" if said.workload is None else str(said.workload)
        for each in (self._workloads[workload], self._nodes[said.node]):
            each.placements += 1
            if elsewhere:
                each.elsewhere += 1
                each.regret += said.regret
        if elsewhere:
            self._elsewhere += 1
            self._save(said.chosen, said.best, said.high, said.advised_at)

    def review(self, said: ClusterReview) -> None:
        self._reviews[said.since, said.until] = said
        self._high = said.high

    def report(self, since: float, until: float) -> Report:
        reviews = without_overlap(self._reviews.values())
        seen = sum(review.seen for review in reviews)
        over: defaultdict[str, float] = defaultdict(float)
        for review in reviews:
            for node, seconds in review.over.items():
                over[node] += seconds
        regrets = sorted(self._regrets)
        buckets = Counter(min(9, int(regret / _BUCKET)) for regret in regrets)
        return Report(
            since=since,
            until=until,
            placements=self._placements,
            judged=len(regrets),
            elsewhere=self._elsewhere,
            skipped=sum(review.skipped for review in reviews),
            regret_median=_quantile(regrets, 0.5),
            regret_p90=_quantile(regrets, 0.9),
            regrets=[buckets[index] for index in range(10)],
            workloads=_most(self._workloads),
            nodes=_most(self._nodes),
            seen=seen,
            over=[
                OverMark(node=node, seconds=round(seconds, 1), share=round(seconds / seen, 4))
                for node, seconds in sorted(over.items(), key=lambda item: (-item[1], item[0]))
            ],
            spread=_mean((review.spread, review.seen) for review in reviews),
            deviation=_mean((review.deviation, review.seen) for review in reviews),
            saved=Saved(
                placements=self._saved_by,
                cpu=round(100.0 * self._saved["cpu"], 1),
                memory=round(100.0 * self._saved["memory"], 1),
            ),
            policies=sorted(self._policies),
            high=self._high,
        )

    def _save(self, chosen: AdvisedNode, best: AdvisedNode, high: Resources, now: float) -> None:
        """See `Saved`."""
        away, come = self._moved(chosen.node, now), self._moved(best.node, now)
        relief = {}
        for resource in _RESOURCES:
            mark = getattr(high, resource)
            there = getattr(best.with_pod, resource)
            if mark is not None and (there is None or there + come[resource] > mark):
                return
            before, after = getattr(chosen.load, resource), getattr(chosen.with_pod, resource)
            if mark is not None and before is not None and after is not None:
                relief[resource] = min(after - before, after + away[resource] - mark)
        relief = {resource: amount for resource, amount in relief.items() if amount > 0}
        if relief:
            self._saved_by += 1
            for resource, amount in relief.items():
                self._saved[resource] += amount
            self._moves[chosen.node].append((now, _share(chosen, -1.0)))
            self._moves[best.node].append((now, _share(best, 1.0)))

    def _moved(self, node: str, now: float) -> dict[str, float]:
        """Load that this node would have more (or less) by what was counted before."""
        moves = self._moves[node] = [each for each in self._moves[node] if now - each[0] < _MOVE_LIFE]
        return {name: sum(getattr(share, name) or 0.0 for _, share in moves) for name in _RESOURCES}


def without_overlap(reviews: Iterable[ClusterReview]) -> list[ClusterReview]:
    """Several scorers tell of the same hour: of parts that overlap the one that saw most, whole, and no other."""
    kept: list[ClusterReview] = []
    for review in sorted(reviews, key=lambda each: (-each.seen, each.since)):
        if all(review.until <= each.since or each.until <= review.since for each in kept):
            kept.append(review)
    return kept


def _share(node: AdvisedNode, sign: float) -> Resources:
    def of(resource: str) -> float | None:
        before, after = getattr(node.load, resource), getattr(node.with_pod, resource)
        return None if before is None or after is None else sign * (after - before)

    return Resources(cpu=of("cpu"), memory=of("memory"))


def _most(sums: dict[str, _Sum]) -> list[Regretful]:
    regretful = [
        Regretful(name=name, placements=each.placements, elsewhere=each.elsewhere, regret=round(each.regret, 1))
        for name, each in sums.items()
        if each.elsewhere
    ]
    return sorted(regretful, key=lambda each: (-each.regret, each.name))[:MOST]


def _mean(weighted: Iterable[tuple[Resources, float]]) -> Resources:
    """Per resource over the time in which it was known; unknown when it never was."""
    known = list(weighted)

    def of(resource: str) -> float | None:
        pairs = [(value, weight) for each, weight in known if (value := getattr(each, resource)) is not None]
        total = sum(weight for _, weight in pairs)
        return round(sum(value * weight for value, weight in pairs) / total, 4) if total else None

    return Resources(cpu=of("cpu"), memory=of("memory"))


def _quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
