"""How far Equipoise is trusted to move pods: by what services publish, or by settings and permissions. Pure."""

from collections.abc import Collection, Iterable
from typing import get_args

from equipoise.cli.effective.running import RunningConfiguration, running_configurations
from equipoise.cli.effective.text import default_strategies, one_of, setting_at, strategy_names
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.configuration.moves import (
    LEVELS,
    DeletionCosts,
    MovesInEffect,
    MovesLevel,
    moves_in_effect,
)
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.descheduler.decisions.strategies import name_of


def published_moves(messages: Iterable[EffectiveConfiguration], now: float) -> MovesInEffect:
    """The level in effect, by the latest configurations of annotator, descheduler and binder."""
    messages = [*messages]
    annotator, descheduler, binder = (
        next((each for each in running_configurations(messages, service, now) if each.current), None)
        for service in ("annotator", "descheduler", "binder")
    )
    shared = binder or descheduler or annotator
    settings = {} if shared is None else shared.settings
    level = one_of(LEVELS, setting_at(settings, "moves", "level"))
    silent = [name for name, running in (("descheduler", descheduler), ("binder", binder)) if running is None]
    obstacles: dict[MovesLevel, str] = {}
    if silent:
        obstacles = dict.fromkeys(LEVELS[2:], f"no {' and no '.join(silent)} is known to run")
    if annotator is None:
        obstacles["scaleDowns"] = "no annotator is known to run"
    return moves_in_effect(
        level,
        evict=binder is None or setting_at(binder.settings, "binder", "evict") is True,
        surge=one_of(get_args(SurgeMode), setting_at(settings, "surge", "mode")),
        costs=None if annotator is None else _costs(annotator),
        strategies=default_strategies(level) if descheduler is None else strategy_names(descheduler),
        obstacles=obstacles,
    )


def permitted_moves(settings: AllSettings, *, may_evict: bool, missing: Collection[str]) -> MovesInEffect:
    """The level in effect, by settings and permissions.

    `may_evict`: whether the binder may evict in any namespace. `missing`: the conditions of permissions that are not
    granted (`ApiPermission.when`).
    """
    level = settings.shared.moves.level
    obstacles: dict[MovesLevel, str] = {}
    if not may_evict:
        obstacles = dict.fromkeys(LEVELS[2:], "the binder has no permission to evict")
    elif not {"surge", "detach"}.isdisjoint(missing):
        obstacles["withoutGap"] = "k8s/surge is not applied"
    if "deletionCosts" in missing:
        obstacles["scaleDowns"] = "k8s/deletion-costs is not applied"
    return moves_in_effect(
        level,
        evict=settings.binder.evict,
        surge=settings.shared.surge.mode,
        costs=settings.annotator.deletion_costs,
        strategies=map(name_of, settings.descheduler.chosen_strategies(level)),
        obstacles=obstacles,
    )


def _costs(annotator: RunningConfiguration) -> DeletionCosts | None:
    return one_of(get_args(DeletionCosts), setting_at(annotator.settings, "annotator", "deletionCosts"))
