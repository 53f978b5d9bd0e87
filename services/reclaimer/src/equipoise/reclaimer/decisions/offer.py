"""The whole amount of one resource of a band that a node's status contains, and when it is written."""

import math

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section


class OfferSettings(Section, frozen=True, kw_only=True):
    """How often and how fast the amounts change."""

    growth: Percent = 10.0
    """An amount grows by at most this share of the node's capacity at a time. It shrinks at once."""

    min_change: Percent = 10.0
    """An amount that shrinks by more than this share, and by more than 1 % of the node, is written at once; one that
    grows, when it grows by more than 5 % of the node."""

    refresh_period: Duration = Duration(300)
    """A smaller change is written when the last write is this long ago."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What to write."""

    amount: int
    """Milli-cores or bytes."""

    due: bool


def requested_amount(*, existing: int | None, running: float, bound: float) -> float:
    """The requests that an offer covers: of `running` pods, and of all bound ones as far as the offer did before.

    kube-scheduler binds a pod only to what is offered. But anybody may create a pod with `spec.nodeName`: before the
    kubelet has rejected it, it must not make its node offer more.
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
    """Amounts in milli-cores or bytes; seconds since the last write of the node.

    `existing` is None if the status does not have it. `requested`: see `requested_amount`. The offer is never less: a
    kubelet that restarts would reject the pods.
    """
    whole = math.floor(capacity)
    target = min(math.floor(reclaimed), whole, (existing or 0) + math.floor(capacity * settings.growth / 100))
    needed = math.ceil(requested)
    amount = max(target, needed)
    if amount > whole:
        # The node became smaller: the API server accepts only what it has, or no change.
        amount = existing if existing is not None and existing > whole else whole
    return Offer(amount=amount, due=_is_due(existing, amount, needed, whole, since_write, settings))


_NOISE = 0.01
"""Share of a node by which its usage always varies: small amounts would be written every minute."""

_STEP = 0.05
"""Share of a node by which an amount must grow to be written at once: what is offered must not flap."""


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
