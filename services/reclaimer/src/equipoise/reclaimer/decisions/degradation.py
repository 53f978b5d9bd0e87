"""How much of a node remains offered when its usage is no longer known: first all of it, then steadily less."""

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class DegradeSettings(Section, frozen=True, kw_only=True):
    """Ages of the newest sample of a node."""

    keep: Duration = Duration(300)
    """The age until which the amounts stay as they are."""

    expire: Duration = Duration(900)
    """The age from which only what bound pods request is offered. In between, the amounts fall evenly."""

    def __post_init__(self) -> None:
        if not 0 < self.keep < self.expire:
            raise ValueError("keep must be longer than 0s and shorter than expire")


def share_kept(age: float | None, settings: DegradeSettings) -> float:
    """The share (0..1) of the last known amounts that is still offered. `age`: seconds; None: there has never been a
    sample."""
    if age is None:
        return 0.0
    return min(1.0, max(0.0, (settings.expire - age) / (settings.expire - settings.keep)))
