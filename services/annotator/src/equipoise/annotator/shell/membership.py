"""Keeps this replica's seat among the others, and knows who else is alive."""

from datetime import UTC, datetime

import structlog

from equipoise.annotator.decisions.replicas import SELECTOR, live, released, seat_for
from equipoise.annotator.settings import SeatSettings
from equipoise.contracts.kubernetes.objects import Lease
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import LEASES, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

_RELEASE_SECONDS = 3.0


class Membership:
    """One replica's part in dividing the objects."""

    def __init__(self, *, kube: Kube, clock: Clock, settings: SeatSettings, namespace: str, identity: str) -> None:
        self.members: frozenset[str] = frozenset()
        """Those who share the objects; empty while this replica must not write."""

        self._kube = kube
        self._clock = clock
        self._settings = settings
        self._namespace = namespace
        self._identity = identity
        self._seat: Lease | None = None
        self._renewed_at = clock.monotonic()

    async def renew(self) -> str | None:
        """Renew the seat and look who else is there; returns what keeps us from it, or None."""
        try:
            joined, members = await run_with_guard(
                self._round(), timeout_after(self._clock, self._settings.renew_period)
            )
        except (KubeError, TimeoutError) as error:
            # By the time the Lease runs out the others have our objects.
            left = self._settings.lease_duration - (self._clock.monotonic() - self._renewed_at)
            if left <= self._settings.renew_period:
                self.members = frozenset()
            return f"the seat among the annotators cannot be renewed: {error}"
        # Who joins others writes nothing for one round: until they have seen it they count on a larger share of the
        # rate, and on objects that are no longer theirs.
        alone = members == {self._identity}
        self.members = members if alone or not joined else frozenset()
        return None

    async def release(self) -> None:
        """Leave, so that the others take over at once. Never raises for the server."""
        self.members = frozenset()
        if self._seat is None:
            return
        try:
            giving = self._kube.replace(LEASES, released(self._seat))
            await run_with_guard(giving, timeout_after(self._clock, _RELEASE_SECONDS))
        except (KubeError, TimeoutError) as error:
            log.warning("seat not given back", error=str(error))

    async def _round(self) -> tuple[bool, frozenset[str]]:
        sent = self._clock.monotonic()
        joined = False
        if self._seat is None or not await self._renewed(self._seat):
            seats = await self._seats()
            await self._write(seat_for(self._identity, seats, self._namespace, self._now(), self._duration))
            joined = True
        self._renewed_at = sent
        return joined, live(await self._seats(), self._now()) | {self._identity}

    async def _renewed(self, seat: Lease) -> bool:
        """False: it is gone or somebody else's; take another."""
        try:
            await self._write(seat_for(self._identity, [seat], self._namespace, self._now(), self._duration))
        except (Conflict, NotFound) as error:
            log.warning("seat lost", seat=seat.metadata.name, error=str(error))
            self._seat = None
            return False
        return True

    async def _write(self, seat: Lease) -> None:
        known = bool(seat.metadata.resource_version)
        self._seat = await (self._kube.replace(LEASES, seat) if known else self._kube.create(LEASES, seat))

    async def _seats(self) -> list[Lease]:
        return await self._kube.list(LEASES, self._namespace, SELECTOR)

    @property
    def _duration(self) -> float:
        return self._settings.lease_duration

    def _now(self) -> datetime:
        """The API server's time: replicas compare it with one another."""
        return datetime.fromtimestamp(self._kube.server_time(self._clock.now()), UTC)
