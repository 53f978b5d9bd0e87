"""Tells from Leases which replicas are alive, and which seat a replica takes.

A seat is a Lease with our label. A new replica takes one that is free before it makes another, so that there are
never more Leases than there once were replicas at the same time.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from equipoise.contracts.kubernetes.objects import Lease, LeaseSpec, ObjectMeta

LABELS = {"app.kubernetes.io/name": "equipoise", "app.kubernetes.io/component": "annotator"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
NAME = "equipoise-annotator"


def live(seats: Sequence[Lease], now: datetime) -> frozenset[str]:
    """Identities of the replicas whose seat has not run out."""
    return frozenset(seat.spec.holder_identity for seat in seats if _taken(seat, now))


def seat_for(identity: str, seats: Sequence[Lease], namespace: str, now: datetime, duration: float) -> Lease:
    """The Lease to write: ours renewed, else a free one, else a new one (it has no resource version).

    Two that take the same seat at once: the API server lets only the first have it.
    """
    mine = [seat for seat in seats if seat.spec.holder_identity == identity]
    free = [seat for seat in seats if not _taken(seat, now)]
    for seat in (*mine, *free):
        again = seat.spec.holder_identity == identity
        spec = LeaseSpec(
            holder_identity=identity,
            lease_duration_seconds=round(duration),
            acquire_time=seat.spec.acquire_time if again else now,
            renew_time=now,
            lease_transitions=seat.spec.lease_transitions + (not again),
        )
        return msgspec.structs.replace(seat, spec=spec)
    names = {seat.metadata.name for seat in seats}
    name = next(name for number in range(len(seats) + 1) if (name := f"{NAME}-{number}") not in names)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=LABELS),
        spec=LeaseSpec(
            holder_identity=identity, lease_duration_seconds=round(duration), acquire_time=now, renew_time=now
        ),
    )


def released(seat: Lease) -> Lease:
    """The seat, free for whoever comes next."""
    return msgspec.structs.replace(seat, spec=msgspec.structs.replace(seat.spec, holder_identity=""))


def _taken(seat: Lease, now: datetime) -> bool:
    spec = seat.spec
    if not spec.holder_identity or spec.renew_time is None:
        return False
    return (now - spec.renew_time).total_seconds() <= spec.lease_duration_seconds
