"""How far Equipoise is trusted to move pods: one level, each of which includes those before it.

The level is a ceiling. It also decides settings that are absent: `surge.mode`, `annotator.deletionCosts` and
`descheduler.strategies`. Where these are set, they permit less, never more. Without a level, they alone decide, as in
configurations that are older than the level (docs/decisions/0074).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.configuration.surge import SurgeMode

MovesLevel = Literal["off", "scaleDowns", "withoutGap", "hotNodes", "levelDay"]

LEVELS: tuple[MovesLevel, ...] = get_args(MovesLevel)
"""The levels, the lowest first."""

DeletionCosts = Literal["none", "hottestNodes", "emptiestNodes"]

LOWEST_LEVELS: Mapping[str, MovesLevel] = {"low_node_load": "withoutGap", "make_room": "withoutGap"}
"""The lowest level that permits moves of a strategy, by its name. Those of other strategies need the highest one: they
also move pods from nodes that are not hot."""


class MovesSettings(Section, frozen=True, kw_only=True):
    """How far Equipoise is trusted to move pods. Used by annotator, descheduler and binder.

    Permissions and `binder.evict` are needed besides.
    """

    level: MovesLevel | None = None
    """off: no pod is moved. scaleDowns: pods get deletion costs before a scale-down. withoutGap: pods on hot nodes are
    also moved without a gap, and none with one. hotNodes: they are also evicted (low_node_load). levelDay: pods are
    also moved from nodes that are not hot (level_day). Each includes those before it.

    null: as `binder.evict`, `surge.mode`, `annotator.deletionCosts` and `descheduler.strategies` state, which by
    default move nothing. With a level, the last three may be left out: they then permit all that the level does.
    """


def permits(level: MovesLevel | None, wanted: MovesLevel) -> bool:
    """Whether a level includes another one. Without a level, nothing is excluded."""
    return level is None or LEVELS.index(level) >= LEVELS.index(wanted)


def strategy_refusal(level: MovesLevel | None, strategy: str) -> str:
    """Why no pod is moved by a strategy at all; empty if pods may be moved."""
    lowest = LOWEST_LEVELS.get(strategy, LEVELS[-1])
    if permits(level, lowest):
        return ""
    return f"{strategy} moves no pods at moves.level {level}: it needs {lowest} at least"


def gap_refusal(level: MovesLevel | None) -> str:
    """Why no pod is evicted before its replacement is ready; empty if it may be."""
    if permits(level, "hotNodes"):
        return ""
    return f"moves.level {level} permits no eviction before the replacement is ready: it needs hotNodes at least"


def surge_mode(level: MovesLevel | None, configured: SurgeMode | None) -> SurgeMode:
    """Which pods are moved without a gap. If it is not configured, all that can be are, from `withoutGap` on."""
    if not permits(level, "withoutGap"):
        return "none"
    return configured or ("none" if level is None else "always")


def deletion_costs(level: MovesLevel | None, configured: DeletionCosts | None) -> DeletionCosts:
    """Which pods get deletion costs. If it is not configured, those on the hottest nodes do, from `scaleDowns` on."""
    if not permits(level, "scaleDowns"):
        return "none"
    return configured or ("none" if level is None else "hottestNodes")


class MovesInEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What Equipoise does to pods, of what it is trusted with."""

    level: MovesLevel
    """The highest level of which something happens."""

    configured: MovesLevel | None = None
    """`moves.level`."""

    held: Sequence[str] = ()
    """Why less happens than is configured: settings that permit less, permissions and services that are missing."""

    def __str__(self) -> str:
        """`off (moves.level is withoutGap; binder.evict is false: evictions are dry runs)`."""
        notes = [f"moves.level is {self.configured or 'not set'}", *self.held]
        return f"{self.level} ({'; '.join(notes)})"


def moves_in_effect(
    level: MovesLevel | None,
    *,
    evict: bool,
    surge: SurgeMode | None,
    costs: DeletionCosts | None,
    strategies: Iterable[str],
    obstacles: Mapping[MovesLevel, str] = MappingProxyType({}),
) -> MovesInEffect:
    """The level in effect, by the settings of all services.

    `evict`: `binder.evict`. `surge` and `costs`: the settings, which may be absent. `strategies`: the names of those
    that plan.
    `obstacles`: why nothing of a level happens for another reason, such as a missing permission.
    """
    names = [*strategies]
    leveling = [name for name in names if LOWEST_LEVELS.get(name, LEVELS[-1]) == LEVELS[-1]]
    narrower: dict[MovesLevel, str] = {  # settings that permit nothing of a level
        "scaleDowns": "annotator.deletionCosts is none" if deletion_costs(level, costs) == "none" else "",
        "withoutGap": "surge.mode is none" if surge_mode(level, surge) == "none" else "",
        "hotNodes": "descheduler.strategies does not list low_node_load" if len(leveling) == len(names) else "",
        "levelDay": "" if leveling else "descheduler.strategies does not list level_day",
    }
    dry_runs = "" if evict else "binder.evict is false: evictions are dry runs"
    permitted = [name for name in narrower if permits(level, name)]
    prevented = {name: (obstacles.get(name, ""), dry_runs if name != "scaleDowns" else "") for name in permitted}
    effective = [name for name in permitted if not (narrower[name] or any(prevented[name]))]
    held = [narrower[name] for name in permitted if level is not None]
    held += [why for name in permitted if level is not None or not narrower[name] for why in prevented[name]]
    return MovesInEffect(
        level=effective[-1] if effective else "off", configured=level, held=[*dict.fromkeys(filter(None, held))]
    )
