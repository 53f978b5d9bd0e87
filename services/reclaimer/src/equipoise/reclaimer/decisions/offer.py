"""Decides which amount of one resource of a band a node's status contains, and when it is written."""

import math

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section


class OfferSettings(Section, frozen=True, kw_only=True):
    """How often and how fast the amounts change."""

    growth: Percent = 10.0
    """An amount grows by at most this share of the node's capacity at a time. It shrinks at once."""

    min_change: Percent = 10.0
    """An amount that shrinks by more than this share, and by more than 1 % of the node's capacity, is written at once.
    An amount that grows is written at once if it grows by more than 5 % of the node's capacity."""

    refresh_period: Duration = Duration(300)
    """A smaller change is written when the last write is this long ago."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What to write."""

    amount: int
    """Milli-cores or bytes."""

    due: bool
    """Whether it is written now."""


def requested_amount(*, existing: int | None, running: float, bound: float) -> float:
    """The requests that an offer must cover: those of running pods, and those of all bound pods up to `existing`.

    kube-scheduler binds a pod only to a node that offers enough. But anybody may create a pod with `spec.nodeName`.
    Until the kubelet rejects such a pod, it must not raise the node's offer.
    """
    return min(bound, max(running, existing or 0.0))


def offer(
    *,
    existing: int | None,
    reclaimed: float,
    requested: float,
    capacity: float,
    since_write: float,
    settings: OfferSettings,
) -> Offer:
    """The amount to offer. Amounts are milli-cores or bytes; `since_write` is seconds since the node was last written.

    `existing` is None if the status has no amount. The offer is at least `requested` (see `requested_amount`), because
    a kubelet that restarts with less would reject the pods.
    """
    whole = math.floor(capacity)
    target = min(math.floor(reclaimed), whole, (existing or 0) + math.floor(capacity * settings.growth / 100))
    needed = math.ceil(requested)
    amount = max(target, needed)
    if amount > whole:
        # The node became smaller. The API server accepts its capacity, or the amount that the status already has.
        amount = existing if existing is not None and existing > whole else whole
    return Offer(amount=amount, due=_is_due(existing, amount, needed, whole, since_write, settings))


_NOISE = 0.01
"""Share of a node by which its usage always varies. Without it, small amounts would be written every minute."""

_STEP = 0.05
"""Share of a node by which an amount must grow to be written at once, so that offers do not flap."""


def _is_due(
    existing: int | None, amount: int, needed: int, capacity: int, since_write: float, settings: OfferSettings
) -> bool:
    if existing is None:
        return True
    if amount == existing:
        return False
    if existing < needed or since_write >= settings.refresh_period:
        return True
    if amount > existing:
        return amount - existing > capacity * _STEP
    return existing - amount > max(existing * settings.min_change / 100, capacity * _NOISE)
