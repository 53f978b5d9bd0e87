"""Renews this replica's Lease among the annotators, and determines which others are alive."""

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from equipoise.annotator.decisions.replicas import SELECTOR, lease_for, live_members, released
from equipoise.annotator.settings import MembershipSettings
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import LEASES, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

_RELEASE_TIMEOUT = 3.0


@dataclass(kw_only=True)
class Membership:
    """The annotators that share the objects of the cluster."""

    kube: Kube
    clock: Clock
    settings: MembershipSettings
    namespace: str
    identity: str

    def __post_init__(self) -> None:
        self.members: frozenset[str] = frozenset()
        """This replica and the others; empty while this replica must not write."""

        self._lease: Lease | None = None
        self._renewed_at = self.clock.monotonic()

    async def renew(self) -> str | None:
        """Renew the Lease and update `members`. Returns why that failed; None when it did not."""
        try:
            joined, members = await run_with_guard(self._round(), timeout_after(self.clock, self.settings.renew_period))
        except (KubeError, TimeoutError) as error:
            # When the Lease expires, the others have our objects.
            left = self.settings.lease_duration - (self.clock.monotonic() - self._renewed_at)
            if left <= self.settings.renew_period:
                self.members = frozenset()
            return f"the Lease among the annotators cannot be renewed: {error}"
        # A replica that joins others writes nothing for one round: until they have seen it, they use a larger share of
        # the rate, and write objects that are no longer theirs.
        alone = members == {self.identity}
        self.members = members if alone or not joined else frozenset()
        return None

    async def release(self) -> None:
        """Releases the Lease, so that the others take over at once. An error of the API server is only logged."""
        self.members = frozenset()
        if self._lease is None:
            return
        try:
            releasing = self.kube.replace(LEASES, released(self._lease))
            await run_with_guard(releasing, timeout_after(self.clock, _RELEASE_TIMEOUT))
        except (KubeError, TimeoutError) as error:
            log.warning("Lease not released", error=str(error))

    async def _round(self) -> tuple[bool, frozenset[str]]:
        sent_at = self.clock.monotonic()
        joined = self._lease is None or not await self._renewed(self._lease)
        if joined:
            await self._write(await self._list())
        self._renewed_at = sent_at
        return joined, live_members(await self._list(), self._now()) | {self.identity}

    async def _renewed(self, lease: Lease) -> bool:
        """Renews the Lease. False if it was deleted or another replica holds it: this replica then takes another
        one."""
        try:
            await self._write([lease])
        except (Conflict, NotFound) as error:
            log.warning("Lease lost", lease=lease.metadata.name, error=str(error))
            self._lease = None
            return False
        return True

    async def _write(self, leases: list[Lease]) -> None:
        duration = self.settings.lease_duration
        lease = lease_for(self.identity, leases, self.namespace, self._now(), duration)
        exists = bool(lease.metadata.resource_version)
        self._lease = await (self.kube.replace(LEASES, lease) if exists else self.kube.create(LEASES, lease))

    async def _list(self) -> list[Lease]:
        return await self.kube.list(LEASES, self.namespace, SELECTOR)

    def _now(self) -> datetime:
        """The API server's time: replicas compare it with one another."""
        return datetime.fromtimestamp(self.kube.server_time(self.clock.now()), UTC)
