"""The hints that workloads of a namespace may share, while hints are computed."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.messages.placement import WorkloadHint
from equipoise.contracts.numeric import Flags, Rows, Singles, np
from equipoise.scorer.decisions.placement_hints.selection import Selection, joined
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.placement_hints.sharing import bytes_of_hints, points_lost

_STAY = 2.0
_LEAVE = 0.5
"""Factors of `min_change`: a workload stays with the workloads of the last update while it loses less than the first
one, and is not the first to leave them unless it loses less than the second one elsewhere. Otherwise workloads would
change between two offers that are nearly the same to them, and each time their object would be written again."""


class OfferedHint(msgspec.Struct, kw_only=True):
    """The selection of a workload, which others may use as well."""

    selection: Selection
    """One row."""

    hint: WorkloadHint | None = None


class _Namespace(msgspec.Struct, kw_only=True):
    """The offers of a namespace."""

    offers: list[OfferedHint]
    selections: Selection
    """The selections of all offers."""

    before: Selection
    """The selections that the workloads of the offers had until now."""

    named: Flags
    space: int
    """Bytes for further offers and the names of their nodes."""

    def add(self, offer: OfferedHint, before: Selection) -> None:
        first = not self.offers
        self.selections = offer.selection if first else joined([self.selections, offer.selection])
        self.before = before if first else joined([self.before, before])
        self.offers.append(offer)


class OfferedHints:
    """The offers of the namespaces whose workloads share hints."""

    def __init__(self, space: Mapping[str, int], name_bytes: Rows, settings: HintSettings) -> None:
        """`space`: the bytes for offers in each namespace whose workloads share hints. `name_bytes`: the bytes of the
        name of each node."""
        self._space = space
        self._name_bytes = name_bytes
        self._min_change = settings.min_change
        self._namespaces: dict[str, _Namespace] = {}

    def choose(
        self, namespace: str, own: Selection, before: Selection, points: Singles, candidates: Flags
    ) -> OfferedHint:
        """What a workload uses: its own selection, or an offer of its namespace by which it loses little.

        `own` and `before` (its selection until now) have one row. Without space for another offer, it uses the best
        one.
        """
        offer = OfferedHint(selection=own)
        if namespace not in self._space or own.best[0, 0] < 0:
            return offer
        existing = self._namespaces.get(namespace)
        if existing is None:
            named = np.zeros(len(self._name_bytes), np.bool_)
            space = self._space[namespace]
            existing = _Namespace(offers=[], selections=own, before=before, named=named, space=space)
            self._namespaces[namespace] = existing
        elif (index := self._shared(existing, own, before, points, candidates)) is not None:
            return existing.offers[index]
        nodes = np.concatenate([own.best[0], own.worst[0]])
        new = np.unique(nodes[(nodes >= 0) & ~existing.named[nodes]])
        size = int(bytes_of_hints(own)[0]) + int(self._name_bytes[new].sum())
        if existing.offers and size > existing.space:
            return existing.offers[int(points_lost(points, candidates, own, existing.selections).argmin())]
        existing.named[new] = True
        existing.space -= size
        existing.add(offer, before)
        return offer

    def _shared(
        self, existing: _Namespace, own: Selection, before: Selection, points: Singles, candidates: Flags
    ) -> int | None:
        """The offer that the workload uses because it loses little by it."""
        lost = points_lost(points, candidates, own, existing.selections)
        [same] = np.nonzero((existing.before.best == before.best).all(axis=1) & (before.best[0, 0] >= 0))
        if len(same) and lost[same[0]] <= _STAY * self._min_change:
            return int(same[0])
        index = int(lost.argmin())
        is_first_to_leave = before.best[0, 0] >= 0 and not len(same)
        return index if lost[index] <= self._min_change * (_LEAVE if is_first_to_leave else 1.0) else None
