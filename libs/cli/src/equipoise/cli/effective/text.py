"""What services run with, in a line each. Pure."""

from collections.abc import Mapping
from typing import Any

from equipoise.cli.effective.running import RunningConfiguration


def strategies_line(descheduler: RunningConfiguration) -> str:
    """Its strategies and thresholds: `low_node_load by descheduler-1; hot above cpu 65%, memory 80%`."""
    strategies = setting_at(descheduler.settings, "descheduler", "strategies")
    names = [str(setting_at(each, "name") or "?") for each in strategies] if isinstance(strategies, list) else []
    thresholds = thresholds_text(descheduler)
    return f"strategies: {', '.join(names) or 'not known'} by {descheduler.named}" + (
        f"; {thresholds}" if thresholds else ""
    )


def thresholds_text(running: RunningConfiguration) -> str:
    """`hot above cpu 65%, memory 80%; idle at or below cpu 45%, memory 60%`; empty if they are not known."""
    found = (
        ("hot above", setting_at(running.settings, "thresholds", "high")),
        ("idle at or below", setting_at(running.settings, "thresholds", "low")),
    )
    parts = [f"{words} {_percentages(of)}" for words, of in found if isinstance(of, Mapping) and _percentages(of)]
    return "; ".join(parts)


def _percentages(of: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}%" for name, value in of.items() if isinstance(value, int | float))


def setting_at(settings: Any, *names: str) -> Any:
    """The value at a path; None if there is none: what others publish may have any form."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings
