"""The object with the hints of one namespace. The annotator writes it; the policy and people read it.

Terms refer to nodes by their index in one list of hostnames. The same few nodes are the best, or the hottest, for most
workloads. Their names in every term would take ten times the space.
"""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Int64, Object, Time
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint


class HintTerm(ApiValue, frozen=True, kw_only=True):
    """One preferred term of node affinity."""

    weight: Int64
    nodes: tuple[Int64, ...]
    """Indexes of `hostnames`."""


class Hint(ApiValue, frozen=True, kw_only=True):
    """The hint of one workload."""

    prefer: tuple[HintTerm, ...] = ()
    avoid: HintTerm | None = None


class HintsObject(Object, frozen=True, kw_only=True):
    """PlacementHints. The API server accepts only what definition.py describes."""

    until: Time | None = None
    """The time at which the hints expire. None only in a bookmark."""

    hostnames: tuple[str, ...] = ()
    hints: dict[str, Hint] = msgspec.field(default_factory=dict)
    """The hints, by `hint_key`."""


def remaining_validity(stored: HintsObject, now: float) -> float | None:
    """Seconds until the hints expire, 0 or less afterwards; None for an object without hints.

    `now`: Unix seconds of the API server's clock.
    """
    return stored.until.timestamp() - now if stored.hints and stored.until is not None else None


class StoredHints(msgspec.Struct, frozen=True, kw_only=True):
    """The two fields of HintsObject that contain the hints."""

    hostnames: tuple[str, ...]
    hints: dict[str, Hint]


def stored_hints(hints: Mapping[str, WorkloadHint], max_bytes: int) -> StoredHints:
    """The first hints, as many as fit into `max_bytes` of JSON."""
    indexes: dict[str, int] = {}
    stored: dict[str, Hint] = {}
    size = 0
    for key, hint in hints.items():
        terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
        new = dict.fromkeys(name for term in terms for name in term.hostnames if name not in indexes)
        added = {name: len(indexes) + number for number, name in enumerate(new)}
        compact = _compact(hint, indexes | added)
        size += len(msgspec.json.encode({key: compact})) + sum(len(name) + 3 for name in added)
        if size > max_bytes:
            break
        indexes |= added
        stored[key] = compact
    return StoredHints(hostnames=tuple(indexes), hints=stored)


def workload_hints(stored: HintsObject | StoredHints) -> dict[str, WorkloadHint]:
    """The hints with hostnames instead of indexes. A hint with an index outside of the list is left out."""
    names = dict(enumerate(stored.hostnames))
    named = {}
    for key, hint in stored.hints.items():
        terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
        if all(index in names for term in terms for index in term.nodes):
            named[key] = WorkloadHint(
                prefer=tuple(_named(term, names) for term in hint.prefer),
                avoid=_named(hint.avoid, names) if hint.avoid else None,
            )
    return named


def _compact(hint: WorkloadHint, indexes: Mapping[str, int]) -> Hint:
    def term(nodes: WeightedNodes) -> HintTerm:
        return HintTerm(weight=nodes.weight, nodes=tuple(indexes[name] for name in nodes.hostnames))

    return Hint(prefer=tuple(map(term, hint.prefer)), avoid=term(hint.avoid) if hint.avoid else None)


def _named(term: HintTerm, names: Mapping[int, str]) -> WeightedNodes:
    return WeightedNodes(weight=term.weight, hostnames=tuple(names[index] for index in term.nodes))
