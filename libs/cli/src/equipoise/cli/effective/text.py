"""The configuration of running services as text: one line for each subject. Pure."""

from collections.abc import Mapping
from typing import Any

from equipoise.cli.effective.running import RunningConfiguration


def strategies_line(descheduler: RunningConfiguration) -> str:
    """The descheduler's strategies and thresholds:
    `strategies: low_node_load by descheduler-1; hot above cpu 65%, memory 80%`."""
    strategies = setting_at(descheduler.settings, "descheduler", "strategies")
    strategies = strategies if isinstance(strategies, list) else []
    names = [str(setting_at(strategy, "name") or "?") for strategy in strategies]
    thresholds = thresholds_text(descheduler)
    return f"strategies: {', '.join(names) or 'not known'} by {descheduler.named}" + (
        f"; {thresholds}" if thresholds else ""
    )


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


def setting_at(settings: Any, *names: str) -> Any:
    """The value at a path; None if there is none. Settings that others publish may have any form."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings
