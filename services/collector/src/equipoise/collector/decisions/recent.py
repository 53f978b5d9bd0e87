"""Means of workloads over windows that pods are not asked for, made of what the shortest window said lately.

Pods are the bulk of what a source is asked, so they are asked for in the shortest window only. Of its means some are
kept that join one another, and a longer window's mean is the mean of those, each weighted with the time it stands for.
"""

from collections.abc import Mapping

import msgspec

from equipoise.collector.decisions.workload_means import Fold
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.resources import Resources

Folds = Mapping[Workload, Fold]


class Spell(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured over the shortest window that ended at `at`."""

    at: float
    folds: Folds


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """The newest means of the shortest window, and older ones at least its length apart."""

    length: float
    """Of the shortest window; seconds."""

    horizon: float
    """Length of the longest window that is asked for here; seconds."""

    newest: Spell = Spell(at=0.0, folds={})
    kept: tuple[Spell, ...] = ()
    """Newest first."""

    def after(self, at: float, folds: Folds) -> "Recent":
        """With what the shortest window that ends at `at` says."""
        newest = Spell(at=at, folds=folds)
        apart = not self.kept or at - self.kept[0].at >= self.length
        kept = (newest, *self.kept) if apart else self.kept
        return msgspec.structs.replace(
            self, newest=newest, kept=tuple(spell for spell in kept if spell.at > at - self.horizon)
        )

    def means(self, length: float, coverage: float) -> dict[Workload, Resources]:
        """Usage per replica over the `length` seconds before the newest round, of the workloads that it saw.

        A resource that was measured in less than `coverage` (0..1) of that time is unknown; without any, a workload is
        left out.
        """
        pieces = list(self._pieces(length))
        found = {}
        for workload in self.newest.folds:
            usages = [(weight, fold.usage) for weight, folds in pieces if (fold := folds.get(workload)) is not None]
            cpu = _mean([(weight, usage.cpu) for weight, usage in usages], coverage * length)
            memory = _mean([(weight, usage.memory) for weight, usage in usages], coverage * length)
            if cpu is not None or memory is not None:
                found[workload] = Resources(cpu=cpu, memory=memory)
        return found

    def _pieces(self, length: float) -> list[tuple[float, Folds]]:
        """The spells in this time, newest first, and for how many seconds of it each stands."""
        pieces = []
        begun, until = self.newest.at - length, self.newest.at
        for spell in (self.newest, *self.kept):
            since, until = max(begun, spell.at - self.length), min(until, spell.at)
            if until > since:
                pieces.append((until - since, spell.folds))
                until = since
        return pieces


def _mean(parts: list[tuple[float, float | None]], least: float) -> float | None:
    known = [(weight, value) for weight, value in parts if value is not None]
    weights = sum(weight for weight, _ in known)
    if not known or weights < least:
        return None
    return sum(weight * value for weight, value in known) / weights
