"""Leader election by a Lease: one replica works at a time, and its work ends with its lease.

Clocks of different machines are not compared: a follower waits a whole lease duration, on its own clock, after the last
change of the Lease that it observed.
"""

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

import msgspec
import structlog

from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import LEASES, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.process.clock import Clock

DESCHEDULER_LEASE = "equipoise-descheduler"
"""The Lease whose holder may propose evictions; the binder checks the holder before it evicts."""

RECLAIMER_LEASE = "equipoise-reclaimer"

RELEASE_SECONDS = 3.0
JITTER = 1.2

log = structlog.get_logger()


class LeaseLost(Exception):
    """Another candidate leads, or the Lease could not be renewed in time."""


class LeadershipStatus(Protocol):
    """The place where leadership is shown."""

    leading: bool | None


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. Followers wait `lease_duration` since the last change; a leader gives up after `renew_deadline`."""

    lease_duration: float
    renew_deadline: float
    retry_period: float

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > JITTER * self.retry_period > 0:
            raise ValueError(f"must hold: lease duration > renew deadline > {JITTER} × retry period > 0: {self}")


async def lead(
    kube: Kube,
    clock: Clock,
    *,
    namespace: str,
    name: str,
    identity: str,
    worker: Callable[[LeaseEpoch], Awaitable[None]],
    health: LeadershipStatus,
    lease_duration: float = 15.0,
    renew_deadline: float = 10.0,
    retry_period: float = 2.0,
    acquire_delay: Callable[[], float] = lambda: 0.0,
    random: Callable[[], float] = random.random,
) -> None:
    """Waits for the Lease, runs `worker(epoch)` while it is held, and tries again when it is lost. Never returns.

    The worker is cancelled when the Lease could not be renewed for `renew_deadline` seconds; it must end before
    `lease_duration` is over, when another one may start. Every run of a worker has its own epoch. When the worker ends,
    the Lease is released first; then its exception is raised here.

    `acquire_delay` is called before each attempt, and returns the seconds for which a free Lease is left to other
    candidates. `random`: numbers from 0 to 1, for jitter.
    """
    timing = LeaseTiming(lease_duration=lease_duration, renew_deadline=renew_deadline, retry_period=retry_period)
    elector = _Elector(kube, clock, namespace, name, identity, timing, acquire_delay, random)
    health.leading = False
    while True:
        epoch = await elector.acquire()
        health.leading = True
        log.info("leading", lease=name, transitions=epoch.transitions)
        try:
            await run_with_guard(worker(epoch), elector.keep())
        except LeaseLost as lost:
            log.warning("lease lost", lease=name, reason=str(lost))
        finally:
            health.leading = False
            await elector.release()
        await elector.pause()


@dataclass
class _Elector:
    """One candidate for one Lease."""

    kube: Kube
    clock: Clock
    namespace: str
    name: str
    identity: str
    timing: LeaseTiming
    acquire_delay: Callable[[], float]
    random: Callable[[], float]
    _missing_since: float | None = None
    """The time at which the Lease was first found to be missing (monotonic)."""

    _seen: Lease = field(default_factory=Lease)
    """The Lease as last read or written."""

    _seen_at: float = 0.0
    """The time at which the Lease last changed (monotonic)."""

    _renewed_at: float = 0.0
    """The time at which the last successful renewal was sent (monotonic): no follower began to wait earlier."""

    async def acquire(self) -> LeaseEpoch:
        """Waits until this replica holds the Lease."""
        while True:
            try:
                ours = await run_with_guard(self._try(), timeout_after(self.clock, self.timing.renew_deadline))
            except Conflict:
                ours = False  # another candidate was faster
            except (KubeError, TimeoutError) as error:
                log.warning("lease not acquired", lease=self.name, error=str(error))
                ours = False
            if ours:
                return LeaseEpoch(
                    lease_uid=self._seen.metadata.uid,
                    transitions=self._seen.spec.lease_transitions,
                    holder=self.identity,
                )
            await self.pause()

    async def pause(self) -> None:
        """Jitter, so that candidates that started together spread out."""
        await self.clock.sleep(self.timing.retry_period * (1.0 + JITTER * self.random()))

    async def keep(self) -> NoReturn:
        """Renews the Lease until it is lost; raises LeaseLost."""
        failure = "this process was suspended"
        while True:
            await self.clock.sleep(max(0.0, min(self.timing.retry_period, self._left())))
            if self._left() <= 0:
                raise LeaseLost(f"not renewed for {self.clock.monotonic() - self._renewed_at:.1f} s: {failure}")
            try:
                await run_with_guard(self._renew(), timeout_after(self.clock, self._left()))
            except (KubeError, TimeoutError) as error:
                failure = str(error)
                log.warning("lease not renewed", lease=self.name, error=failure)

    async def release(self) -> None:
        """Releases the Lease if this replica holds it, so that no other has to wait. Raises no KubeError."""
        try:
            await run_with_guard(self._release(), timeout_after(self.clock, RELEASE_SECONDS))
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", lease=self.name, error=str(error))

    async def _try(self) -> bool:
        try:
            lease = await self.kube.get(LEASES, self.name, self.namespace)
        except NotFound:
            if self._missing_since is None:
                self._missing_since = self.clock.monotonic()
            if self.clock.monotonic() < self._missing_since + self.acquire_delay():
                return False
            await self._create()
            return True
        self._see(lease)
        self._missing_since = None
        held = lease.spec.holder_identity not in ("", self.identity)
        duration = (lease.spec.lease_duration_seconds or self.timing.lease_duration) if held else 0.0
        if self.clock.monotonic() < self._seen_at + duration + self.acquire_delay():
            return False
        # Transitions are also counted from this replica to itself, because each run of a worker has its own epoch.
        await self._write(**self._mine(), lease_transitions=lease.spec.lease_transitions + 1)
        return True

    async def _create(self) -> None:
        sent = self.clock.monotonic()
        metadata = ObjectMeta(name=self.name, namespace=self.namespace)
        lease = Lease(metadata=metadata, spec=LeaseSpec(**self._mine()))
        self._see(await self.kube.create(LEASES, lease))
        self._renewed_at = sent

    async def _renew(self) -> None:
        try:
            try:
                await self._write(renew_time=self._wall_time())
            except Conflict:
                await self._read_again()
                await self._write(renew_time=self._wall_time())
        except NotFound:
            raise LeaseLost("it was deleted") from None

    async def _read_again(self) -> None:
        """The Lease has changed: by a request whose response was lost, or by a user who added a label."""
        lease = await self.kube.get(LEASES, self.name, self.namespace)
        if self._term(lease) != self._term(self._seen):
            raise LeaseLost(f"{lease.spec.holder_identity or 'no replica'} holds it now")
        self._see(lease)

    async def _release(self) -> None:
        term = self._term(self._seen)
        while True:
            lease = await self.kube.get(LEASES, self.name, self.namespace)
            if self._term(lease) != term:
                return
            self._see(lease)
            now = self._wall_time()
            try:
                await self._write(holder_identity="", lease_duration_seconds=1, acquire_time=now, renew_time=now)
            except Conflict:  # a renewal that was cancelled on its way may arrive in between
                continue
            return

    async def _write(self, **fields: Any) -> None:
        sent = self.clock.monotonic()
        spec = msgspec.structs.replace(self._seen.spec, **fields)
        self._see(await self.kube.replace(LEASES, msgspec.structs.replace(self._seen, spec=spec)))
        self._renewed_at = sent

    def _see(self, lease: Lease) -> None:
        if (lease.metadata.uid, lease.spec) != (self._seen.metadata.uid, self._seen.spec):
            self._seen_at = self.clock.monotonic()
        self._seen = lease

    def _left(self) -> float:
        return self._renewed_at + self.timing.renew_deadline - self.clock.monotonic()

    def _mine(self) -> dict[str, Any]:
        now = self._wall_time()
        return {
            "holder_identity": self.identity,
            "lease_duration_seconds": math.ceil(self.timing.lease_duration),
            "acquire_time": now,
            "renew_time": now,
        }

    def _wall_time(self) -> datetime:
        """The time of day, for people only."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    @staticmethod
    def _term(lease: Lease) -> tuple[str, int, str]:
        return lease.metadata.uid, lease.spec.lease_transitions, lease.spec.holder_identity
