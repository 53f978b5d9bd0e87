"""What one service fills another must not empty: settings of scorer and descheduler that work against each other.

Read from the plain document, as each service is strict on its own section only and yet must refuse to start. What
cannot be read here is passed over: the service whose section it is says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.contracts.configuration.settings import (
    MIN_GAP,
    THRESHOLD_RESOURCES,
    ResourceThresholds,
    Thresholds,
    too_close,
)

PACKING_TARGET = 40.0
"""The default of `target_load_packing.targetUtilization`. A test holds them equal."""

HEADROOM = 10.0
SPARSE = ResourceThresholds(cpu=20, memory=20)
"""The defaults of `bin_pack.headroom` and `bin_pack.thresholds`."""

DYNAMIC = ResourceThresholds(cpu=65, memory=65)
"""The strictest default of `dynamic.predicates`."""

FILTERED = ("cpu", "memory")
"""What the filter looks at. The number of pods kube-scheduler counts itself."""

Section = Mapping[str, Any]


class Emptying(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that pods are taken from, and above which load."""

    path: str
    """Where the configuration says so."""

    thresholds: Thresholds
    levelled: bool
    """By distances from the mean in CPU: no fixed load is safe."""


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """Load up to which the filter lets pods onto a node, in one resource."""

    path: str
    kind: Literal["high", "prodHigh"]
    resource: str
    most: float


def contradictions(document: Mapping[str, Any], thresholds: Thresholds) -> list[str]:
    """A line per contradiction: where, what, and what to change. `thresholds`: those of the document, as read."""
    strategies = _strategies(_mapping(document.get("descheduler")))
    scorer = _mapping(document.get("scorer"))
    emptyings: list[Emptying] = []
    faults: list[str] = []
    for path, strategy in strategies:
        if strategy.get("name") == "low_node_load":
            found, wrong = _emptyings(path, strategy, thresholds)
            emptyings += found
            faults += wrong
        elif strategy.get("name") == "level_day":
            emptyings.append(Emptying(path=path, thresholds=thresholds, levelled=True))
    faults += _filter_faults(scorer, emptyings, thresholds)
    faults += _packing_faults(scorer, emptyings)
    for path, strategy in strategies:
        if strategy.get("name") == "bin_pack":
            faults += _bin_pack_faults(path, strategy, strategies, scorer, thresholds)
    return faults


# What the descheduler empties


def _strategies(descheduler: Section) -> list[tuple[str, Section]]:
    told = descheduler.get("strategies", [{"name": "low_node_load"}, {"name": "level_day"}])
    listed = told if isinstance(told, list | tuple) else []
    return [
        (f"descheduler.strategies[{place}]", entry) for place, entry in enumerate(listed) if isinstance(entry, Mapping)
    ]


def _emptyings(path: str, strategy: Section, shared: Thresholds) -> tuple[list[Emptying], list[str]]:
    whole = strategy.get("deviation")
    found, faults = [Emptying(path=path, thresholds=shared, levelled=_levels(whole))], []
    for place, pool in enumerate(_list(strategy.get("pools"))):
        where = f"{path}.pools[{place}]"
        try:
            thresholds = pool_thresholds(pool, shared)
        except ValueError as error:
            faults.append(f"{where}: {error}; what the pool does not set it has from thresholds")
            continue
        own = pool.get("deviation")
        found.append(Emptying(path=where, thresholds=thresholds, levelled=_levels(whole if own is None else own)))
    return found, faults


def pool_thresholds(pool: Section, shared: Thresholds) -> Thresholds:
    """The pool's marks, those that it does not have taken from the shared ones. Raises ValueError."""
    names = {"high": "high", "low": "low", "prodHigh": "prod_high", "prodLow": "prod_low"}
    own = {name: _marks(pool[key]) for key, name in names.items() if pool.get(key) is not None}
    merged: Thresholds = msgspec.structs.replace(shared, **own)
    return merged


def _levels(deviation: object) -> bool:
    """Is CPU levelled around the mean? It is by default where there is a deviation."""
    if not isinstance(deviation, Mapping):
        return False
    return _marks(deviation.get("high", {"cpu": 8})).cpu is not None


# What the scorer fills


def _filter_faults(scorer: Section, emptyings: Sequence[Emptying], shared: Thresholds) -> Iterator[str]:
    """The filter may let nobody onto a node that is emptied, or what was evicted comes straight back."""
    if _mapping(scorer.get("extender")).get("filter") is not True:
        return
    for cap in _strictest(_caps(scorer, shared)):
        for emptying in emptyings:
            marks = emptying.thresholds.high if cap.kind == "high" else emptying.thresholds.prod_high
            mark = getattr(marks, cap.resource)
            if mark is not None and cap.most > mark:
                yield (
                    f"{cap.path}.{cap.resource}: the filter lets pods onto nodes up to {cap.most:g}%, and "
                    f"{emptying.path} takes them away above {cap.kind}.{cap.resource} {mark:g}%: lower the first to "
                    f"{mark:g}, raise the second to {cap.most:g}, or set scorer.extender.filter: false"
                )


def _strictest(caps: Iterable[Cap]) -> list[Cap]:
    """Each policy of a mix refuses on its own."""
    least: dict[tuple[str, str], Cap] = {}
    for cap in caps:
        key = (cap.kind, cap.resource)
        if key not in least or cap.most < least[key].most:
            least[key] = cap
    return list(least.values())


def _caps(scorer: Section, shared: Thresholds) -> list[Cap]:
    """Of the policies that have thresholds of their own; where none has, the shared ones count."""
    own = [cap for path, policy in _policies(scorer) for cap in _own_caps(path, policy)]
    return own or ([] if scorer.get("neutral") is True else _of_marks("thresholds.high", "high", shared.high))


def _own_caps(path: str, policy: Section) -> list[Cap]:
    if policy.get("name") == "dynamic":
        predicates = policy.get("predicates")
        told = DYNAMIC if predicates is None else _limits(_list(predicates))
        return _of_marks(f"{path}.predicates", "high", told)
    if policy.get("name") != "load_aware":
        return []
    aggregated = _marks(_mapping(policy.get("aggregated")).get("usageThresholds"))
    caps = _of_marks(f"{path}.prodUsageThresholds", "prodHigh", _marks(policy.get("prodUsageThresholds")))
    if aggregated != ResourceThresholds():
        return caps + _of_marks(f"{path}.aggregated.usageThresholds", "high", aggregated)
    return caps + _of_marks(f"{path}.usageThresholds", "high", _marks(policy.get("usageThresholds")))


def _of_marks(path: str, kind: Literal["high", "prodHigh"], marks: ResourceThresholds) -> list[Cap]:
    """0 and null: not looked at."""
    told = ((resource, getattr(marks, resource)) for resource in FILTERED)
    return [Cap(path=path, kind=kind, resource=resource, most=most) for resource, most in told if most]


def _limits(predicates: Sequence[Section]) -> ResourceThresholds:
    """Per resource the strictest: each of them refuses on its own. 0 is off."""
    least: dict[str, float] = {}
    for predicate in predicates:
        resource, limit = predicate.get("resource"), predicate.get("limit")
        if resource in FILTERED and isinstance(limit, int | float) and limit > 0:
            least[resource] = min(limit, least.get(resource, limit))
    return ResourceThresholds(**least)


def _packing_faults(scorer: Section, emptyings: Sequence[Emptying]) -> Iterator[str]:
    """target_load_packing fills a node up to its target, whatever the others hold."""
    for path, policy in _policies(scorer):
        if policy.get("name") != "target_load_packing":
            continue
        target = policy.get("targetUtilization", PACKING_TARGET)
        for emptying in emptyings if isinstance(target, int | float) else ():
            mark = emptying.thresholds.high.cpu
            if emptying.levelled:
                yield (
                    f"{path}: target_load_packing fills some nodes to {target:g}% and leaves others empty, and "
                    f"{emptying.path} levels them: take its deviation (or the strategy) away, or another policy"
                )
            elif mark is not None and target + MIN_GAP > mark:
                yield (
                    f"{path}.targetUtilization: nodes are filled to {target:g}%, and {emptying.path} empties them "
                    f"above high.cpu {mark:g}%: at least {MIN_GAP:g} points must lie between: lower the first to "
                    f"{mark - MIN_GAP:g} or raise the second to {target + MIN_GAP:g}"
                )


# bin_pack, which fills and empties


def _bin_pack_faults(
    path: str, strategy: Section, strategies: Sequence[tuple[str, Section]], scorer: Section, shared: Thresholds
) -> Iterator[str]:
    sparse = _marks(strategy["thresholds"]) if strategy.get("thresholds") is not None else SPARSE
    headroom = strategy.get("headroom", HEADROOM)
    if isinstance(headroom, int | float):
        marks = {name: getattr(shared.high, name) for name in THRESHOLD_RESOURCES}
        filled = ResourceThresholds(**{name: None if mark is None else mark - headroom for name, mark in marks.items()})
        fault = too_close(sparse, filled, low_name="thresholds", high_name=f"thresholds.high − headroom {headroom:g}:")
        if fault:
            yield f"{path}: {fault}"
    for other_path, other in strategies:
        if other.get("name") != "bin_pack" and not _apart(strategy.get("nodeSelector"), other.get("nodeSelector")):
            yield (
                f"{path}: bin_pack empties the nodes that {other_path} ({other.get('name')}) fills: keep one of them, "
                "or give each a nodeSelector with matchLabels that name another value of one label"
            )
    if scorer.get("neutral") is True:
        return
    for place, policy in _policies(scorer):
        target = policy.get("targetUtilization", PACKING_TARGET)
        if policy.get("name") != "target_load_packing":
            yield (
                f"{path}: bin_pack empties nodes that {place} ({policy.get('name')}) fills first: set scorer.policy to "
                "target_load_packing, or scorer.neutral: true beside kube-scheduler's MostAllocated"
            )
        elif isinstance(target, int | float) and sparse.cpu is not None and sparse.cpu + MIN_GAP > target:
            yield (
                f"{path}.thresholds.cpu: nodes are sparse up to {sparse.cpu:g}%, {place} fills to {target:g}% only: "
                f"lower the first to {target - MIN_GAP:g} or raise targetUtilization to {sparse.cpu + MIN_GAP:g}"
            )


def _apart(left: object, right: object) -> bool:
    """Can no node satisfy both selectors? Told by labels that both name with different values."""
    one, other = (_mapping(_mapping(selector).get("matchLabels")) for selector in (left, right))
    return any(key in other and other[key] != value for key, value in one.items())


# Reading


def _policies(scorer: Section) -> list[tuple[str, Section]]:
    """The policy in force, or its parts. Absent: the default, which has no thresholds."""
    policy = _mapping(scorer.get("policy")) or {"name": "profile"}
    if scorer.get("neutral") is True:
        return []
    if policy.get("name") != "mix":
        return [("scorer.policy", policy)]
    return [
        (f"scorer.policy.parts[{place}].policy", _mapping(part.get("policy")))
        for place, part in enumerate(_list(policy.get("parts")))
    ]


def _mapping(value: object) -> Section:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Section]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def _marks(value: object) -> ResourceThresholds:
    told = _mapping(value)
    return ResourceThresholds(
        **{
            name: float(mark) for name in THRESHOLD_RESOURCES if isinstance(mark := told.get(name), int | float)
        }  # None: not told
    )
