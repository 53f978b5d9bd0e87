"""Whether a node got cooler when pods were taken from it. One that does not is not worth the next pod."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.load.correction import RESOURCES, known
from equipoise.contracts.messages.descheduling import LoadReduction, NodeClassification
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.cluster import Fleet, FleetNode
from equipoise.descheduler.state.pending_moves import Flight

ENOUGH = 0.5
"""Share of the expected relief that a node must show to count as better."""

PATIENCE = 3.0
"""Windows after an eviction, beyond which a node whose load was never known is not judged any more."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions from one node whose effect is not known yet."""

    intents: tuple[str, ...]
    over: tuple[str, ...]
    before: Resources
    expected: Resources
    since: float
    """When the last of them happened."""


Trials = Mapping[str, Trial]
"""By node: evictions that follow one another within a window are judged together."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the nodes that are over a mark now: they should be cooler soon after an eviction.

    Nobody can say that of one that is relieved for hours to come.
    """

    usage: Mapping[str, Resources]
    """Over the shortest window, cores and bytes."""

    over: Mapping[str, Sequence[str]]
    """The resources in which a hot one is over its mark."""

    @classmethod
    def of(cls, fleet: Fleet, verdicts: Sequence[NodeClassification]) -> "Sources":
        over = {verdict.node: verdict.over for verdict in verdicts if verdict.over}
        return cls(
            usage={
                node.name: node.usage.get(fleet.windows[0], Resources()) for node in fleet.nodes if node.name in over
            },
            over=over,
        )


def begun(trials: Trials, flight: Flight) -> dict[str, Trial]:
    """The trials once the pod of a flight was evicted. One of whose node nothing was known cannot be judged."""
    if flight.evicted_at is None or flight.before == Resources():
        return dict(trials)
    trial = trials.get(flight.node)
    if trial is None:
        trial = Trial(intents=(), over=flight.over, before=flight.before, expected=Resources(), since=0.0)
    if flight.id in trial.intents:
        return dict(trials)
    together = Trial(
        intents=(*trial.intents, flight.id),
        over=tuple(dict.fromkeys((*trial.over, *flight.over))),
        before=trial.before,
        expected=_sum(trial.expected, flight.relief),
        since=max(trial.since, flight.evicted_at),
    )
    return {**trials, flight.node: together}


def judged(trials: Trials, nodes: Sequence[FleetNode], *, window: str, length: float) -> list[LoadReduction]:
    """What can be said by now: of nodes whose sample is a whole window of `length` seconds after the last eviction."""
    found = []
    for node in nodes:
        trial = trials.get(node.name)
        if trial is None or node.unknown or node.sampled_at.get(window, 0.0) < trial.since + length:
            continue
        relief = _relief(node.name, trial, node.usage.get(window, Resources()))
        if relief is not None:
            found.append(relief)
    return found


def open_trials(trials: Trials, reliefs: Sequence[LoadReduction], *, length: float, now: float) -> dict[str, Trial]:
    """Those that are neither judged now nor given up."""
    done = {relief.node for relief in reliefs}
    return {name: trial for name, trial in trials.items() if name not in done and trial.since + PATIENCE * length > now}


def _relief(node: str, trial: Trial, after: Resources) -> LoadReduction | None:
    """None while a resource that matters is not known."""
    # A node may be over its mark in its number of pods too: that falls with every one that leaves.
    over: list[str] = [
        name for name in RESOURCES if name in (trial.over or RESOURCES) and known(getattr(trial.expected, name))
    ]
    fallen: list[bool] = []
    for name in over:
        was, left, expected = (known(getattr(each, name)) for each in (trial.before, after, trial.expected))
        if was is None or left is None or expected is None:
            return None
        fallen.append(was - left >= ENOUGH * expected)
    if not fallen:
        return None
    return LoadReduction(
        node=node,
        intents=list(trial.intents),
        over=over,
        before=trial.before,
        after=after,
        expected=trial.expected,
        reduced=any(fallen),
    )


def _sum(left: Resources, right: Resources) -> Resources:
    def of(name: str) -> float | None:
        amounts = [amount for each in (left, right) if (amount := known(getattr(each, name))) is not None]
        return sum(amounts) if amounts else None

    return Resources(cpu=of("cpu"), memory=of("memory"))
