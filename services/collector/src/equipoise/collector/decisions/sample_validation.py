"""Which of the answers are measurements. What is not is unknown, with a reason, and never 0.

Unknown are: NaN, infinite and negative values; more than a machine has; two series that claim to be one node;
windows whose samples cover too little of them; samples from the future or too old; series of a namesake that was
there before.
"""

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Literal, get_args

import msgspec

from equipoise.collector.decisions.query import Resource, Sample, Statistic, What
from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.messages.resources import Resources

Answers = Mapping[What, list[Sample]]
"""What was answered about one resource in one window."""

EXCESS = 1.05
"""A measured usage may exceed what the machine has by rounding (it is capped then), not by more than this factor."""

Reason = Literal[
    "no sample", "duplicate", "future", "stale", "gap", "young", "namesake", "invalid", "excess", "frozen", "zeros",
    "no interval", "not answered", "not measured", "no capacity",
]  # fmt: skip
"""Kinds of reasons why a usage is unknown: what metrics count, and what there is to do for each."""

Doubt = tuple[Reason, str]
"""A kind of reason, and the reason as people read it."""

_ROUNDING = 1e-9

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


class Known(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the cluster says of a node or a pod that is to be measured."""

    since: float
    """When it came to be: earlier samples under its name are those of a namesake."""

    ceiling: Resources
    """What its machine has."""

    node: str = ""
    """For a pod: where it runs."""

    busy: bool = False
    """For a node: has it had running pods all through the window?"""


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """By what a window's samples are judged."""

    at: float
    length: float
    """The window is (at − length, at]; seconds."""

    coverage: float
    """0..1: less covered windows are unknown."""

    life: float
    """Seconds: an older newest sample says nothing of now."""

    reach: float
    """Seconds back within which the last sample of a series that ended is looked for."""


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between raw samples, per node."""

    by_node: Mapping[str, float] = {}
    usual: float | None = None
    """Of nodes that are not in `by_node`; None: not known either."""

    def of(self, node: str) -> float | None:
        return self.by_node.get(node, self.usual)

    @property
    def all(self) -> set[float]:
        """All that are known."""
        return {*self.by_node.values()} | ({self.usual} if self.usual is not None else set())


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of one node in one window."""

    mean: float | None = None
    statistics: Mapping[Statistic, float] = {}
    sampled_at: float | None = None
    """Newest raw sample; None when there is none at all."""

    why: str = ""
    """Why the mean is unknown, as people read it."""

    reason: Reason | None = None
    """What kind of reason that is; None when the mean is known."""


def intervals_from(samples: Iterable[Sample]) -> Intervals:
    """Scrape intervals from measured spacings; the largest one of a node counts, so that none looks covered twice."""
    by_node: dict[str, float] = {}
    for sample in samples:
        if math.isfinite(sample.value) and sample.value > 0:
            by_node[sample.node] = max(sample.value, by_node.get(sample.node, 0.0))
    return Intervals(by_node=by_node, usual=median(by_node.values()) if by_node else None)


def coverage(count: float, length: float, interval: float) -> float:
    """Share (0..1) of a window that `count` samples cover.

    A window holds length ÷ interval samples, one fewer where its ends fall between two: that one is not held against
    it. A single sample covers nothing, as no rate can be had from it.
    """
    return min(1.0, count / _whole(length, interval))


def least_samples(criteria: Criteria, interval: float) -> int:
    """How many samples speak for a window, where they come at this interval."""
    return max(2, math.ceil(criteria.coverage * _whole(criteria.length, interval) - _ROUNDING))


def _whole(length: float, interval: float) -> float:
    return max(2.0, math.floor(length / interval - 0.5))


def read_nodes(
    known: Mapping[str, Known], resource: Resource, answers: Answers, intervals: Intervals, criteria: Criteria
) -> dict[str, Reading]:
    """A reading for every known node; samples of other nodes are passed over."""
    by_node = {what: _by_node(samples) for what, samples in answers.items()}
    return {
        node: _read_node(node, known[node], resource, {what: found.get(node, []) for what, found in by_node.items()},
                         intervals.of(node), criteria)
        for node in known
    }  # fmt: skip


def _by_node(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.node, []).append(sample)
    return found


def _read_node(
    node: str, known: Known, resource: Resource, answers: Answers, interval: float | None, criteria: Criteria
) -> Reading:
    def unknown(reason: Reason, why: str, sampled_at: float | None = None) -> Reading:
        return Reading(sampled_at=sampled_at, why=f"{resource}: {why}", reason=reason)

    alive = answers.get("newest", [])
    if len(alive) > 1:
        return unknown("duplicate", f"{len(alive)} series claim to be this node")
    # No live series: it ended, or its target failed the last scrape. The newest sample before that tells the age.
    newest = alive[0] if alive else _latest(answers.get("last", []))
    if newest is None or not math.isfinite(newest.value):
        return unknown("no sample", "no sample")
    sampled_at = newest.value
    if sampled_at > criteria.at + FUTURE_TOLERANCE:
        return unknown("future", f"newest sample lies {sampled_at - criteria.at:.0f} s in the future")
    if sampled_at < known.since:
        return unknown("namesake", "newest sample is older than the node")
    mine = {what: [sample for sample in found if sample.series == newest.series] for what, found in answers.items()}
    counts = mine.get("count", [])
    count = counts[0].value if len(counts) == 1 else math.nan
    doubt = _stale(sampled_at, criteria) or _doubt(known, count, interval, criteria)
    ceiling = getattr(known.ceiling, resource)
    mean, fault = _only(mine.get("mean", []), ceiling)
    if doubt or fault:
        return unknown(*(doubt or fault or ("no sample", "no value")), sampled_at)
    statistics = {what: _only(mine.get(what, []), ceiling)[0] for what in STATISTICS}
    measured = {what: value for what, value in statistics.items() if value is not None}
    return Reading(mean=mean, statistics=measured, sampled_at=sampled_at)


def _latest(samples: list[Sample]) -> Sample | None:
    return max((sample for sample in samples if math.isfinite(sample.value)), key=lambda s: s.value, default=None)


def _stale(sampled_at: float, criteria: Criteria) -> Doubt | None:
    age = criteria.at - sampled_at
    return ("stale", f"newest sample is {age:.0f} s old") if age > criteria.life else None


def _doubt(known: Known, count: float, interval: float | None, criteria: Criteria) -> Doubt | None:
    """Why so many samples (NaN: not known) do not speak for the whole window; None when they do."""
    length = criteria.length
    if interval is None:
        return "no interval", "scrape interval not known yet (fewer than two samples of a series)"
    lived = criteria.at - known.since
    if lived < criteria.coverage * length:
        return "young", f"has been there for {lived:.0f} s of a window of {length:g} s"
    count = count if math.isfinite(count) else 0.0
    if count < least_samples(criteria, interval):
        share = coverage(count, length, interval)
        return "gap", f"samples cover {share:.0%} of a window of {length:g} s at one per {interval:g} s"
    return None


def _only(samples: list[Sample], ceiling: float | None) -> tuple[float | None, Doubt | None]:
    """The one measured amount, or None and why."""
    if len(samples) != 1:
        return None, ("no sample", "no value") if not samples else ("duplicate", f"{len(samples)} values")
    return _amount(samples[0], ceiling)


def _amount(sample: Sample, ceiling: float | None) -> tuple[float | None, Doubt | None]:
    """The measured amount, capped at what there is; or None and why."""
    value = sample.value
    if sample.of_capacity:
        if ceiling is None:
            return None, ("no capacity", "value is a share of a machine whose size is not known")
        value *= ceiling
    if not math.isfinite(value) or value < 0:
        return None, ("invalid", f"value is {value:g}")
    if ceiling is not None and value > ceiling * EXCESS:
        return None, ("excess", f"value is {value:g} where the machine has {ceiling:g}")
    # + 0.0 turns a negative zero into a plain one.
    return (value if ceiling is None else min(value, ceiling)) + 0.0, None


def read_pods(
    known: Mapping[tuple[str, str], Known],
    resource: Resource,
    answers: Answers,
    intervals: Intervals,
    criteria: Criteria,
) -> dict[tuple[str, str], float]:
    """Mean usage by (namespace, name) of the known pods that were measured; the others are absent.

    Without an answer about counts the source has left out the series that have too few samples.
    A pod that returned under its old name on another node has a series on either: only the one of its node counts.
    """
    counted = "count" in answers
    counts: dict[str, float] = {}
    for sample in answers.get("count", ()):
        counts[sample.series] = math.nan if sample.series in counts else sample.value
    begun = criteria.at - criteria.coverage * criteria.length
    least = {interval: least_samples(criteria, interval) for interval in intervals.all}
    measured: dict[tuple[str, str], float | None] = {}
    for sample in answers.get("mean", ()):
        name = (sample.namespace, sample.pod)
        pod = known.get(name)
        # A node label that is no node's name (an address and port) tells nothing against the sample.
        if pod is None or (sample.node and sample.node != pod.node):
            continue
        if name in measured:
            measured[name] = None
            continue
        interval = intervals.of(pod.node)
        covered = interval is not None and pod.since <= begun
        if interval is not None and counted:
            covered = covered and least[interval] <= counts.get(sample.series, 0.0) < math.inf
        measured[name] = _amount(sample, getattr(pod.ceiling, resource))[0] if covered else None
    return {name: amount for name, amount in measured.items() if amount is not None}
