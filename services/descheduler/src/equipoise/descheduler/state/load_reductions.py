"""Decides whether the load of a node fell after pods were evicted from it. If it did not, no more pods are evicted
there."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.load.correction import FUTURE_TOLERANCE, RESOURCES, known
from equipoise.contracts.messages.descheduling import LoadReduction
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.state.moves.pending_moves import TrackedMove

MIN_SHARE = 0.5
"""The share of the expected reduction from which a node counts as reduced."""

MAX_WINDOWS = 3.0
"""The number of windows after an eviction for which the load of a node is awaited."""


class ReductionTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions from one node whose effect is not known yet."""

    intents: tuple[str, ...]
    over: tuple[str, ...]
    before: Resources
    expected: Resources
    since: float
    """Time of the last of these evictions."""


ReductionTrials = Mapping[str, ReductionTrial]
"""The trials by node. Evictions within one window of each other are evaluated together."""


def after_eviction(trials: ReductionTrials, move: TrackedMove) -> dict[str, ReductionTrial]:
    """The trials once the pod of a move was evicted. Unchanged if the node's usage before the eviction is unknown."""
    if move.evicted_at is None or move.before == Resources():
        return dict(trials)
    trial = trials.get(move.node)
    if trial is None:
        trial = ReductionTrial(intents=(), over=move.over, before=move.before, expected=Resources(), since=0.0)
    if move.id in trial.intents:
        return dict(trials)
    extended = ReductionTrial(
        intents=(*trial.intents, move.id),
        over=tuple(dict.fromkeys((*trial.over, *move.over))),
        before=trial.before,
        expected=_sum(trial.expected, move.expected_reduction),
        since=max(trial.since, move.evicted_at),
    )
    return {**trials, move.node: extended}


def completed(
    trials: ReductionTrials, nodes: Sequence[ClusterNode], *, window: str, length: float
) -> list[LoadReduction]:
    """The results of nodes with a sample taken at least one window (`length` seconds) after the last eviction."""
    results = []
    for node in nodes:
        trial = trials.get(node.name)
        if trial is None or node.unknown or node.sampled_at.get(window, 0.0) < trial.since + length:
            continue
        result = _result(node.name, trial, node.remaining(window))
        if result is not None:
            results.append(result)
    return results


def remaining(
    trials: ReductionTrials, results: Sequence[LoadReduction], *, length: float, now: float
) -> dict[str, ReductionTrial]:
    """The trials without a result. Those older than `MAX_WINDOWS`, and those from a clock that was ahead, are
    dropped."""
    done = {result.node for result in results}
    return {
        name: trial
        for name, trial in trials.items()
        if name not in done and -FUTURE_TOLERANCE <= now - trial.since < MAX_WINDOWS * length
    }


def _result(node: str, trial: ReductionTrial, after: Resources) -> LoadReduction | None:
    """The result of a trial; None while a resource that counts is not known."""
    # A node may also be above its threshold in the number of pods. That falls with every pod that leaves.
    names = (*RESOURCES, *(trial.expected.further or {}))
    over = [name for name in names if name in (trial.over or RESOURCES) and known(trial.expected.amount(name))]
    reduced: list[bool] = []
    for name in over:
        before, now, expected = (known(usage.amount(name)) for usage in (trial.before, after, trial.expected))
        if before is None or now is None or expected is None:
            return None
        reduced.append(before - now >= MIN_SHARE * expected)
    if not reduced:
        return None
    intents = list(trial.intents)
    return converted(trial, LoadReduction, node=node, intents=intents, over=over, after=after, reduced=any(reduced))


def _sum(left: Resources, right: Resources) -> Resources:
    def total(name: str) -> float | None:
        amounts = [amount for usage in (left, right) if (amount := known(usage.amount(name))) is not None]
        return sum(amounts) if amounts else None

    sums = {name: total(name) for name in {**(left.further or {}), **(right.further or {})}}
    further = {name: amount for name, amount in sums.items() if amount is not None}
    return Resources(cpu=total("cpu"), memory=total("memory"), further=further or None)
