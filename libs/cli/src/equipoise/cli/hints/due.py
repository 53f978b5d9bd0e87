"""The time at which the first placement hints after an installation are due. Pure."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from equipoise.cli.effective.settings import known_settings
from equipoise.cli.effective.text import setting_at
from equipoise.cli.terminal import duration
from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.configuration import ConfigurationError
from equipoise.scorer.settings import ScorerSettings

START_SECONDS = 120.0
"""Seconds from the start of the services until a scorer knows the load of the nodes, and the annotators have found what
adds the hints to pods. They look for it every 30 s, and probe a webhook for a minute before pods depend on it."""


def first_hints_due(
    installed: float | None, published: Sequence[EffectiveConfiguration], interval: float, now: float
) -> float:
    """The time at which the first hints are due (Unix seconds).

    `installed`: when the object was created that adds hints to pods; None if that is unknown. `published`: what the
    services published in the last hour. `interval`: `scorer.hints.interval`, in seconds.

    Of each service the first process counts: with the last one, hints would never be due while processes fail again and
    again. Starts in the future are ignored: the clock of that process is wrong.
    """
    begun = [0.0 if installed is None else installed, *_first_starts(published, now)]
    return max(begun) + START_SECONDS + interval


def due_text(remaining: float) -> str:
    """Why hints may be missing while the first ones are due in `remaining` seconds."""
    return f"the first ones after an installation or a start are due in {duration(remaining)}"


def published_interval(published: Sequence[EffectiveConfiguration]) -> float:
    """`scorer.hints.interval` of the scorers in seconds, the longest; the default if none has published it."""
    intervals = [ScorerSettings().hints.interval]
    for each in published:
        if each.service == "scorer":
            with suppress(ConfigurationError):  # a later version may have published anything
                intervals.append(
                    known_settings(each.settings.get("scorer", {}), ScorerSettings, "scorer").hints.interval
                )
    return float(max(intervals))


def _first_starts(published: Sequence[EffectiveConfiguration], now: float) -> Iterator[float]:
    """The first start of each service without which there are no hints; of a scorer and an annotator with hints."""
    for service in ("collector", "scorer", "annotator"):
        starts = [
            each.started_at
            for each in published
            if each.service == service
            and each.started_at <= now + CLOCK_TOLERANCE
            and (service == "collector" or setting_at(each.settings, "placement", "hints") is True)
        ]
        if starts:
            yield min(starts)
