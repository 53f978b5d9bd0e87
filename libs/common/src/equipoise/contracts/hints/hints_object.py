"""The object with the hints of one namespace: written by the annotator, read by the policy and by people.

Its terms name nodes by their place in one list. The same few nodes are best, and hottest, for most workloads: their
names in every term would take ten times the space.
"""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Int64, Object, Time
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint


class HintTerm(ApiValue, frozen=True, kw_only=True):
    """One preferred term of node affinity."""

    weight: Int64
    nodes: tuple[Int64, ...]
    """Places in `hostnames`."""


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
    """The two fields of the object with the hints themselves."""

    hostnames: tuple[str, ...]
    hints: dict[str, Hint]


def stored_hints(hints: Mapping[str, WorkloadHint], max_bytes: int) -> StoredHints:
    """The hints that fit into the object, the first ones first: at most this many bytes of JSON."""
    places: dict[str, int] = {}
    found: dict[str, Hint] = {}
    size = 0
    for key, hint in hints.items():
        terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
        new = dict.fromkeys(name for term in terms for name in term.hostnames if name not in places)
        added = {name: len(places) + number for number, name in enumerate(new)}
        compact = _compact(hint, places | added)
        size += len(msgspec.json.encode({key: compact})) + sum(len(name) + 3 for name in added)
        if size > max_bytes:
            break
        places |= added
        found[key] = compact
    return StoredHints(hostnames=tuple(places), hints=found)


def workload_hints(stored: HintsObject | StoredHints) -> dict[str, WorkloadHint]:
    """The hints with the names of the nodes. A hint that names a node outside of the list is left out."""
    names = dict(enumerate(stored.hostnames))
    found = {}
    for key, hint in stored.hints.items():
        terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
        if all(place in names for term in terms for place in term.nodes):
            found[key] = WorkloadHint(
                prefer=tuple(_named(term, names) for term in hint.prefer),
                avoid=_named(hint.avoid, names) if hint.avoid else None,
            )
    return found


def _compact(hint: WorkloadHint, places: Mapping[str, int]) -> Hint:
    def term(nodes: WeightedNodes) -> HintTerm:
        return HintTerm(weight=nodes.weight, nodes=tuple(places[name] for name in nodes.hostnames))

    return Hint(prefer=tuple(map(term, hint.prefer)), avoid=term(hint.avoid) if hint.avoid else None)


def _named(term: HintTerm, names: Mapping[int, str]) -> WeightedNodes:
    return WeightedNodes(weight=term.weight, hostnames=tuple(names[place] for place in term.nodes))
