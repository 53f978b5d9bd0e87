"""The object with the hints of one namespace. The annotator writes it; the policy and people read it.

The API server converts the whole object for each new pod, and needs as long for one number or one short string as for
a hundred characters of a long one. So the names of all nodes are one string, and each hint is one. Hints refer to nodes
by their index in the names: the same few nodes are the best, or the hottest, for most workloads.
"""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Int64, Object, Time
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint

MAX_BYTES = 60 * 1024
"""The maximum size of the hints in one object, in bytes. With its metadata, the object has less than 64 KiB, so that
the API server writes and distributes it within milliseconds."""

_BYTES_BESIDE_KEY = 5
"""The colon and the comma after a key, and the index of its hint."""

_BYTES_BESIDE_HINT = 3
"""The quotes of a hint, and the comma after it."""


class HintTerm(ApiValue, frozen=True, kw_only=True):
    """One preferred term of node affinity, as earlier versions wrote it."""

    weight: Int64
    nodes: tuple[Int64, ...]
    """Indexes of `hostnames`."""


class Hint(ApiValue, frozen=True, kw_only=True):
    """The hint of one workload, as earlier versions wrote it."""

    prefer: tuple[HintTerm, ...] = ()
    avoid: HintTerm | None = None


class HintsObject(Object, frozen=True, kw_only=True):
    """PlacementHints. The API server accepts only what definition.py describes."""

    until: Time | None = None
    """The time at which the hints expire. None only in a bookmark."""

    nodes: str = ""
    """The hostnames to which hints refer, separated by spaces."""

    distinct_hints: tuple[str, ...] = ()
    """Each different hint once: its terms, separated by spaces. A term has its weight, a colon, and indexes of `nodes`:
    `32:0,1 16:2 -8:3`. With the sign, the nodes are avoided: all others get the weight."""

    workloads: dict[str, Int64] = msgspec.field(default_factory=dict)
    """The index in `distinct_hints` of the hint of each workload, by `hint_key`."""

    hostnames: tuple[str, ...] = ()
    """The hostnames to which `hints` refer."""

    hints: dict[str, Hint] = msgspec.field(default_factory=dict)
    """The hints as earlier versions wrote them, by `hint_key`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The workloads with hints, by `hint_key`."""
        return tuple(dict.fromkeys((*self.hints, *self.workloads)))

    def hint(self, key: str) -> WorkloadHint | None:
        """The hint of a workload, as the admission policy finds it. None if there is none, or none that can be used:
        it refers to a node that is not listed."""
        if key in self.hints:
            return _earlier_hint(self.hints[key], dict(enumerate(self.hostnames)))
        index = self.workloads.get(key, -1)
        if not 0 <= index < len(self.distinct_hints):
            return None
        return _hint_of_text(self.distinct_hints[index], dict(enumerate(self.nodes.split(" "))))


def remaining_validity(stored: HintsObject, now: float) -> float | None:
    """Seconds until the hints expire, 0 or less afterwards; None for an object without hints.

    `now`: Unix seconds of the API server's clock.
    """
    return stored.until.timestamp() - now if stored.keys and stored.until is not None else None


def stored_hints(hints: Mapping[str, WorkloadHint], max_bytes: int) -> HintsObject:
    """The first hints, as many as fit into `max_bytes` of JSON. The object has no metadata and no time yet."""
    indexes: dict[str, int] = {}
    places: dict[WorkloadHint, int] = {}
    texts: list[str] = []
    workloads: dict[str, int] = {}
    size = 0
    for key, hint in hints.items():
        size += len(msgspec.json.encode(key)) + _BYTES_BESIDE_KEY
        if hint not in places:
            new = dict.fromkeys(name for term in _terms(hint) for name in term.hostnames if name not in indexes)
            added = {name: len(indexes) + position for position, name in enumerate(new)}
            text = _text(hint, indexes | added)
            size += len(text) + _BYTES_BESIDE_HINT + sum(len(name) + 1 for name in added)
            if size > max_bytes:
                break
            indexes |= added
            places[hint] = len(texts)
            texts.append(text)
        elif size > max_bytes:
            break
        workloads[key] = places[hint]
    return HintsObject(nodes=" ".join(indexes), distinct_hints=tuple(texts), workloads=workloads)


def workload_hints(stored: HintsObject) -> dict[str, WorkloadHint]:
    """The hints with hostnames instead of indexes. A hint that cannot be used is left out."""
    hostnames = dict(enumerate(stored.hostnames))
    earlier = {key: _earlier_hint(hint, hostnames) for key, hint in stored.hints.items()}
    nodes = dict(enumerate(stored.nodes.split(" ")))
    distinct = dict(enumerate(_hint_of_text(text, nodes) for text in stored.distinct_hints))
    others = {key: distinct.get(index) for key, index in stored.workloads.items() if key not in earlier}
    return {key: hint for key, hint in {**earlier, **others}.items() if hint is not None}


def _terms(hint: WorkloadHint) -> tuple[WeightedNodes, ...]:
    return (*hint.prefer, *((hint.avoid,) if hint.avoid else ()))


def _text(hint: WorkloadHint, indexes: Mapping[str, int]) -> str:
    """The hint as the object has it."""
    return " ".join(
        f"{'-' if term is hint.avoid else ''}{term.weight}:{','.join(str(indexes[name]) for name in term.hostnames)}"
        for term in _terms(hint)
    )


def _hint_of_text(text: str, names: Mapping[int, str]) -> WorkloadHint | None:
    """The hint that the object has as this text. None if it refers to a node that is not listed."""
    prefer, avoid = [], None
    try:
        for term in text.split(" "):
            weight, _, indexes = term.partition(":")
            hostnames = tuple(names[int(index)] for index in indexes.split(","))
            nodes = WeightedNodes(weight=abs(int(weight)), hostnames=hostnames)
            if weight.startswith("-"):
                avoid = nodes
            else:
                prefer.append(nodes)
    except (KeyError, ValueError):
        return None
    return WorkloadHint(prefer=tuple(prefer), avoid=avoid)


def _earlier_hint(hint: Hint, names: Mapping[int, str]) -> WorkloadHint | None:
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
