"""Decides when the hints of a namespace are written: after a significant change, and before the written ones expire."""

from collections.abc import Mapping

import msgspec

from equipoise.annotator.decisions.write_decision import DueWrite
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section
from equipoise.contracts.messages.placement import WorkloadHint

LONGEST_VALIDITY = 600.0
"""Seconds: the fence of the annotator refuses hints for longer."""


class HintWriteThreshold(Section, frozen=True, kw_only=True):
    """The conditions under which the hints of a namespace are written again."""

    min_change: Percent = 10
    """Percent of a hint's weight that must be on other nodes than in the written hint, before hints are written
    again."""

    min_interval: Duration = Duration(10)
    """Minimum age of the written hints, unless they expire or pods are evicted."""

    validity: Duration = Duration(300)
    """Time after their computation for which hints are added to pods; at most 10 minutes. They are written again when
    half of it is over, and expire by themselves when Equipoise does not run."""

    def __post_init__(self) -> None:
        if not 0 < self.validity <= LONGEST_VALIDITY:
            raise ValueError("validity must be longer than 0s and at most 10m")
        if not 0 < self.min_interval <= self.validity / 4:
            raise ValueError("minInterval must be longer than 0s and not longer than a quarter of validity")


class WrittenHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the object of a namespace holds."""

    until: float
    """Unix seconds of the API server's clock."""

    hints: Mapping[str, WorkloadHint]
    owner: str
    """UID of the policy that owns the object."""


def decide_hints(
    written: WrittenHints | None,
    wanted: WrittenHints,
    *,
    now: float,
    threshold: HintWriteThreshold,
    replacing: bool = False,
) -> DueWrite | None:
    """The reason to write `wanted` now; None if there is none yet. `now`: the time of the API server's clock.

    With `replacing`, a change does not wait for the minimum interval.
    """
    if written is None:
        return DueWrite(why="not written before") if wanted.hints and now < wanted.until else None
    if not written.hints and not wanted.hints:
        return None
    if wanted.until <= now:
        return None
    if written.until > now + LONGEST_VALIDITY:
        return DueWrite(why="somebody else made the hints valid for longer")
    if wanted.until <= written.until:
        return None
    if wanted.owner != written.owner:
        return DueWrite(why="the policy was created again")
    if (replacing or wanted.until - written.until >= threshold.min_interval) and (
        change := significant_change(written.hints, wanted.hints, threshold.min_change / 100)
    ):
        return DueWrite(why=change)
    if now >= written.until - threshold.validity / 2:
        return DueWrite(why=f"half of {threshold.validity} is over")
    return None


def significant_change(before: Mapping[str, WorkloadHint], after: Mapping[str, WorkloadHint], min_change: float) -> str:
    """Describes a hint that changed by more than `min_change` (0..1); "" if there is none."""
    no_hint = WorkloadHint()
    changes: dict[tuple[int, int], float] = {}  # by the identities of two hints, which several workloads share
    for key in {**before, **after}:
        old, new = before.get(key, no_hint), after.get(key, no_hint)
        pair = (id(old), id(new))
        if pair not in changes:
            changes[pair] = hint_change(old, new)
        change = changes[pair]
        if change > min_change:
            return f"{key} changed by {change:.0%}"
    return ""


def hint_change(before: WorkloadHint, after: WorkloadHint) -> float:
    """The part of the weights that changed: 0 without a change, 1 if no part of a node's weight is as before."""
    if before == after:
        return 0.0
    old, new = before.weights, after.weights
    pairs = [(old[node], new[node]) for node in old.keys() | new.keys()]
    return sum(abs(first - second) for first, second in pairs) / sum(
        max(abs(first), abs(second), abs(first - second)) for first, second in pairs
    )
