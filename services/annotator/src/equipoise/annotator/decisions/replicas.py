"""Which replicas are alive, and which Lease a replica holds.

Each replica holds a Lease with the label of the annotator. A new replica takes a free Lease before it creates one, so
there are never more Leases than there were replicas at the same time.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta

LABELS = {"app.kubernetes.io/name": "equipoise", "app.kubernetes.io/component": "annotator"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
NAME = "equipoise-annotator"


def live_members(leases: Sequence[Lease], now: datetime) -> frozenset[str]:
    """Identities of the replicas whose Lease has not expired.

    A Lease expires `annotator.membership.leaseDuration` (30 s) after its last renewal.
    """
    return frozenset(lease.spec.holder_identity for lease in leases if _is_held(lease, now))


def lease_for(identity: str, leases: Sequence[Lease], namespace: str, now: datetime, duration: float) -> Lease:
    """The Lease to write: the renewed Lease of this replica, else a free one, else a new one (no resource version).

    When two replicas take the same Lease, the API server accepts only the first write.
    """
    own = [lease for lease in leases if lease.spec.holder_identity == identity]
    free = [lease for lease in leases if not _is_held(lease, now)]
    for lease in (*own, *free):
        renewal = lease.spec.holder_identity == identity
        spec = LeaseSpec(
            holder_identity=identity,
            lease_duration_seconds=round(duration),
            acquire_time=lease.spec.acquire_time if renewal else now,
            renew_time=now,
            lease_transitions=lease.spec.lease_transitions + (not renewal),
        )
        return msgspec.structs.replace(lease, spec=spec)
    names = {lease.metadata.name for lease in leases}
    name = next(name for number in range(len(leases) + 1) if (name := f"{NAME}-{number}") not in names)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=LABELS),
        spec=LeaseSpec(
            holder_identity=identity, lease_duration_seconds=round(duration), acquire_time=now, renew_time=now
        ),
    )


def released(lease: Lease) -> Lease:
    """The Lease without a holder."""
    return msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, holder_identity=""))


def _is_held(lease: Lease, now: datetime) -> bool:
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return False
    # The absolute value, because a replica that has ended may have renewed its Lease while the API server's clock was
    # ahead. Such a Lease would otherwise be held until its time is reached.
    return abs((now - spec.renew_time).total_seconds()) <= spec.lease_duration_seconds
