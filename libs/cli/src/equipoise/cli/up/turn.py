"""One Equipoise at a time works on a namespace of a cluster. Another `equipoise up` waits.

Otherwise two would share the Leases of their services. If the collector of one and the descheduler of the other held
them, neither bus would have both measurements and evictions. So `up` takes a Lease of its own first, and starts and
stops its services together.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import msgspec

from equipoise.cli.cluster_access.leases import held_leases, held_text
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.kubernetes.client import LEASES, Kube, KubeError, NotFound
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.clock import Clock

UP_LEASE = "equipoise-up"
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 40.0, 10.0, 2.0
"""Seconds. Services need up to 24.5 s to stop after the Lease was not renewed in time."""

DISPLACED_AFTER = 30.0
"""Seconds that a service waits for a Lease of another Equipoise. The Lease of a killed service expires after 15 s."""

POLL_INTERVAL = 1.0


class Displaced(Exception):
    """Services of this Equipoise wait for Leases that services of another Equipoise hold."""


class _Leading(msgspec.Struct):
    leading: bool | None = None


async def work_in_turn(
    kube: Kube,
    clock: Clock,
    *,
    namespace: str,
    identity: str,
    services: Sequence[ServiceName],
    work: Callable[[], Coroutine[None, None, None]],
    report: Callable[[str], None],
) -> None:
    """Runs `work` while no other Equipoise works. If it raises Displaced, it runs again later. Never returns."""

    async def worker(_epoch: LeaseEpoch) -> None:
        while True:
            await _until_none_works(kube, clock, namespace, services, report)
            try:
                # In Python 3.11, a TaskGroup that fails leaves its task marked as cancelled: `work` has its own task.
                await asyncio.create_task(work())
            except* Displaced as displaced:
                report(f"stopped: {displaced.exceptions[0]}")

    leading = _Leading()
    waiting = asyncio.create_task(_report_waiting(kube, clock, namespace, leading, report))
    try:
        await lead(
            kube, clock, namespace=namespace, name=UP_LEASE, identity=identity, worker=worker, health=leading,
            lease_duration=LEASE_DURATION, renew_deadline=RENEW_DEADLINE, retry_period=RETRY_PERIOD,
        )  # fmt: skip
    finally:
        waiting.cancel()


async def _report_waiting(
    kube: Kube, clock: Clock, namespace: str, status: _Leading, report: Callable[[str], None]
) -> None:
    """Reports once which other `equipoise up` this one waits for."""
    reported = ""
    while True:
        await clock.sleep(POLL_INTERVAL)
        if status.leading:
            reported = ""
            continue
        try:
            holder = (await kube.get(LEASES, UP_LEASE, namespace)).spec.holder_identity
        except NotFound:
            continue
        except KubeError as error:
            holder = f"unknown: {error}"
        if holder and holder != reported:
            report(
                f"waits: another `equipoise up` works on this cluster: Lease {namespace}/{UP_LEASE} is held by {holder}"
            )
        reported = holder


async def _until_none_works(
    kube: Kube, clock: Clock, namespace: str, services: Sequence[ServiceName], report: Callable[[str], None]
) -> None:
    reported = ""
    while True:
        try:
            held = [lease for service in services for lease in await held_leases(kube, namespace, service, clock)]
            reason = held_text(held)
        except KubeError as error:
            reason = f"who holds the Leases is unknown: {error}"
        if not reason:
            return
        if reason != reported:
            report(f"waits: another Equipoise works on this cluster: {reason}")
        reported = reason
        await clock.sleep(POLL_INTERVAL)
