"""What the binder is told: whether it may evict, and how much at most. Whom never is shared."""

from typing import Annotated

from msgspec import Meta

from equipoise.binder.decisions.limits import Limits
from equipoise.contracts.configuration.settings import Section


class BinderSettings(Section, frozen=True, kw_only=True):
    """The section `binder`."""

    health: str = "0.0.0.0:8085"
    """Where /healthz, /readyz and /metrics are served."""

    evict: bool = False
    """Off: every eviction is a dry run, which the API server checks in full and then does not carry out."""

    limits: Limits = Limits()

    concurrency: Annotated[int, Meta(ge=1, le=32)] = 4
    """Intents under way at once in one binder."""
