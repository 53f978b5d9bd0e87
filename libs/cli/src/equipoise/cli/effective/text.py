"""The configuration of running services as text: one line for each subject. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from equipoise.cli.effective.running import RunningConfiguration
from equipoise.contracts.configuration.moves import LEVELS, MovesLevel
from equipoise.descheduler.decisions.strategies import name_of
from equipoise.descheduler.settings import DeschedulerSettings

T = TypeVar("T")


def strategies_line(descheduler: RunningConfiguration) -> str:
    """The descheduler's strategies and thresholds:
    `strategies: low_node_load by descheduler-1; hot above cpu 65%, memory 80%`."""
    thresholds = thresholds_text(descheduler)
    return f"strategies: {', '.join(strategy_names(descheduler)) or 'not known'} by {descheduler.named}" + (
        f"; {thresholds}" if thresholds else ""
    )


def strategy_names(descheduler: RunningConfiguration) -> list[str]:
    """The names of the strategies that plan; empty if they are not known."""
    section = descheduler.settings.get("descheduler")
    if not isinstance(section, Mapping) or "strategies" not in section:
        return []
    listed = section["strategies"]
    if listed is None:
        return default_strategies(one_of(LEVELS, setting_at(descheduler.settings, "moves", "level")))
    return [str(setting_at(each, "name") or "?") for each in listed] if isinstance(listed, list) else []


def default_strategies(level: MovesLevel | None) -> list[str]:
    """The names of the strategies that plan at a level if none are listed."""
    return [name_of(strategy) for strategy in DeschedulerSettings().chosen_strategies(level)]


def thresholds_text(running: RunningConfiguration) -> str:
    """`hot above cpu 65%, memory 80%; idle at or below cpu 45%, memory 60%`; empty if they are not known."""
    high = _percentages(setting_at(running.settings, "thresholds", "high"))
    low = _percentages(setting_at(running.settings, "thresholds", "low"))
    parts = (("hot above", high), ("idle at or below", low))
    return "; ".join(f"{words} {values}" for words, values in parts if values)


def _percentages(thresholds: Any) -> str:
    """`cpu 65%, memory 80%`; empty if they are not known."""
    if not isinstance(thresholds, Mapping):
        return ""
    return ", ".join(f"{name} {value:g}%" for name, value in thresholds.items() if isinstance(value, int | float))


def one_of(allowed: Sequence[T], value: Any) -> T | None:
    """The value if it is one of those that this version knows: another version may have published anything."""
    return next((each for each in allowed if each == value), None)


def setting_at(settings: Any, *names: str) -> Any:
    """The value at a path; None if there is none. Settings that others publish may have any form."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings
