"""Who holds the Leases of a service in a cluster."""

from datetime import UTC, datetime

from equipoise.annotator.decisions.replicas import live_members
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.process.clock import Clock


async def held_leases(kube: Kube, namespace: str, service: ServiceName, clock: Clock) -> list[Lease]:
    """The Leases of this service that have not expired. Raises KubeError."""
    leases = await kube.list(LEASES, namespace)
    now = datetime.fromtimestamp(kube.server_time(clock.now()), UTC)
    return [lease for lease in leases if _belongs_to(lease, service) and live_members([lease], now)]


def _belongs_to(lease: Lease, service: ServiceName) -> bool:
    name = f"equipoise-{service}"
    return lease.metadata.name == name or lease.metadata.name.startswith(f"{name}-")


def held_text(leases: list[Lease]) -> str:
    """`Lease equipoise-system/equipoise-descheduler is held by descheduler-1`."""
    return ", ".join(
        f"Lease {lease.metadata.namespace}/{lease.metadata.name} is held by {lease.spec.holder_identity}"
        for lease in leases
    )
