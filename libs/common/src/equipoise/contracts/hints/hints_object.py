"""The object with the hints of one namespace. The annotator writes it; the policy and people read it.

Terms refer to nodes by their index in one list of hostnames. The same few nodes are the best, or the hottest, for most
workloads. Their names in every term would take ten times the space.
"""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.hints.shared_hints import divided_hints
from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Int64, Object, Time
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint

MAX_BYTES = 60 * 1024
"""The maximum size of the hints in one object, in bytes. With its metadata, the object has less than 64 KiB, so that
the API server writes and distributes it within milliseconds."""

_BYTES_BESIDE_KEY = 5
"""The colon and the comma after a key, and the index of a shared hint."""


class HintTerm(ApiValue, frozen=True, kw_only=True):
    """One preferred term of node affinity."""

    weight: Int64
    nodes: tuple[Int64, ...]
    """Indexes of `hostnames`."""


class Hint(ApiValue, frozen=True, kw_only=True):
    """The hint of one workload, or of several."""

    prefer: tuple[HintTerm, ...] = ()
    avoid: HintTerm | None = None


class HintsObject(Object, frozen=True, kw_only=True):
    """PlacementHints. The API server accepts only what definition.py describes."""

    until: Time | None = None
    """The time at which the hints expire. None only in a bookmark."""

    hostnames: tuple[str, ...] = ()
    hints: dict[str, Hint] = msgspec.field(default_factory=dict)
    """The hints that one workload alone has, by `hint_key`."""

    shared_hints: tuple[Hint, ...] = ()
    """The hints that several workloads have."""

    workloads: dict[str, Int64] = msgspec.field(default_factory=dict)
    """The index in `shared_hints` of the hint of each other workload, by `hint_key`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The workloads with hints, by `hint_key`."""
        return tuple(dict.fromkeys((*self.hints, *self.workloads)))

    def hint(self, key: str) -> Hint | None:
        """The hint of a workload, as the admission policy finds it. None if there is none."""
        if key in self.hints:
            return self.hints[key]
        index = self.workloads.get(key, -1)
        return self.shared_hints[index] if 0 <= index < len(self.shared_hints) else None


def remaining_validity(stored: HintsObject, now: float) -> float | None:
    """Seconds until the hints expire, 0 or less afterwards; None for an object without hints.

    `now`: Unix seconds of the API server's clock.
    """
    return stored.until.timestamp() - now if stored.keys and stored.until is not None else None


class StoredHints(ApiValue, frozen=True, kw_only=True):
    """The fields of HintsObject that contain the hints."""

    hostnames: tuple[str, ...]
    hints: dict[str, Hint]
    shared_hints: tuple[Hint, ...] = ()
    workloads: dict[str, int] = msgspec.field(default_factory=dict)


def stored_hints(hints: Mapping[str, WorkloadHint], max_bytes: int) -> StoredHints:
    """The first hints, as many as fit into `max_bytes` of JSON. A hint that several workloads have is stored once."""
    divided = divided_hints(hints)
    indexes: dict[str, int] = {}
    own: dict[str, Hint] = {}
    shared: list[Hint] = []
    workloads: dict[str, int] = {}
    size = 0
    for key, hint in hints.items():
        number = divided.workloads.get(key)
        size += len(msgspec.json.encode(key)) + _BYTES_BESIDE_KEY
        if number is None or number == len(shared):  # the hint is not stored yet
            terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
            new = dict.fromkeys(name for term in terms for name in term.hostnames if name not in indexes)
            added = {name: len(indexes) + position for position, name in enumerate(new)}
            compact = _compact(hint, indexes | added)
            size += len(msgspec.json.encode(compact)) + sum(len(name) + 3 for name in added)
            if size > max_bytes:
                break
            indexes |= added
            if number is None:
                own[key] = compact
            else:
                shared.append(compact)
        elif size > max_bytes:
            break
        if number is not None:
            workloads[key] = number
    return StoredHints(hostnames=tuple(indexes), hints=own, shared_hints=tuple(shared), workloads=workloads)


def workload_hints(stored: HintsObject | StoredHints) -> dict[str, WorkloadHint]:
    """The hints with hostnames instead of indexes. A hint with an index outside of its list is left out."""
    names = dict(enumerate(stored.hostnames))
    own = {key: _named_hint(hint, names) for key, hint in stored.hints.items()}
    shared = dict(enumerate(_named_hint(hint, names) for hint in stored.shared_hints))
    others = {key: shared.get(index) for key, index in stored.workloads.items() if key not in own}
    return {key: hint for key, hint in {**own, **others}.items() if hint is not None}


def _compact(hint: WorkloadHint, indexes: Mapping[str, int]) -> Hint:
    def term(nodes: WeightedNodes) -> HintTerm:
        return HintTerm(weight=nodes.weight, nodes=tuple(indexes[name] for name in nodes.hostnames))

    return Hint(prefer=tuple(map(term, hint.prefer)), avoid=term(hint.avoid) if hint.avoid else None)


def _named_hint(hint: Hint, names: Mapping[int, str]) -> WorkloadHint | None:
    """The hint with hostnames. None if it refers to a node that is not listed."""
    terms = (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))
    if not all(index in names for term in terms for index in term.nodes):
        return None
    return WorkloadHint(
        prefer=tuple(_named(term, names) for term in hint.prefer),
        avoid=_named(hint.avoid, names) if hint.avoid else None,
    )


def _named(term: HintTerm, names: Mapping[int, str]) -> WeightedNodes:
    return WeightedNodes(weight=term.weight, hostnames=tuple(names[index] for index in term.nodes))
