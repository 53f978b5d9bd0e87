"""The binder's settings: whether it may evict, and within which limits. The section `protection` states which pods."""

from typing import Annotated

from msgspec import Meta

from equipoise.binder.decisions.limits import Limits
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class BinderSettings(Section, frozen=True, kw_only=True):
    """The section `binder`."""

    health: str = "0.0.0.0:8085"
    """Address of /healthz, /readyz, /metrics and /version."""

    evict: bool = False
    """false: every eviction is a dry run, which the API server validates and does not execute."""

    limits: Limits = Limits()

    max_intent_lifetime: Duration = Duration(900)
    """Intents with a longer lifetime are rejected, because a reservation counts until its intent has expired.

    Must not be shorter than `descheduler.intentLifetime`.
    """

    concurrency: Annotated[int, Meta(ge=1, le=32)] = 4
    """Number of intents that one binder processes concurrently."""

    def __post_init__(self) -> None:
        if self.max_intent_lifetime <= 0:
            raise ValueError("maxIntentLifetime must be longer than 0s")
