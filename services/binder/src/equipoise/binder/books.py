"""Keeps the ledger for one binder: decides on the newest one, writes by compare-and-swap, tries again on conflict."""

import asyncio
from collections.abc import Callable

import msgspec

from equipoise.binder.admission import Admission, admit
from equipoise.binder.doubts import Verdict
from equipoise.binder.ledger import CLOCK_TOLERANCE, Entry, Ledger, entry_of
from equipoise.binder.ledger_store import Closed, Held, LedgerFull, LedgerStore
from equipoise.binder.limits import Limits, Move
from equipoise.binder.reading import has_recovered
from equipoise.contracts.messages import EvictionIntent, Outcome
from equipoise.runtime.clock import Clock
from equipoise.runtime.kube import Conflict, Kube, KubeError

_CAS_ATTEMPTS = 30
"""Conflicts in a row after which an intent is left for later. A binder writes one at a time, so few are seen."""


class Taken(Exception):
    """Another binder is busy with this very intent."""


class Books:
    """All writes of one binder go through one lock, so that only different binders ever conflict."""

    def __init__(self, kube: Kube, clock: Clock, limits: Limits, namespace: str) -> None:
        self._kube = kube
        self._clock = clock
        self._limits = limits
        self._store = LedgerStore(kube, namespace)
        self._writing = asyncio.Lock()

    async def read(self) -> Held | Closed:
        return await self._store.read()

    @property
    def earliest(self) -> float:
        """The earliest that it can be at the API server now: what decisions are made at."""
        return self._kube.server_time_bounds(self._clock.now())[0]

    @property
    def latest(self) -> float:
        """The latest that it can be at the API server now: what is written down of something that is over."""
        return self._kube.server_time_bounds(self._clock.now())[1]

    async def reserve(
        self,
        intent: EvictionIntent,
        move: Move,
        *,
        dry_run: bool,
        doubt: Callable[[Ledger], Verdict | None],
    ) -> Verdict | Entry:
        """The reservation: the pod may go. Else why not; that is in the ledger too. Raises KubeError and Taken.

        `doubt` is asked again for every ledger that is tried, for time passes.
        """
        for _ in range(_CAS_ATTEMPTS):
            try:
                tried = await self._try_to_reserve(intent, move, dry_run=dry_run, doubt=doubt)
            except Conflict:
                continue
            except LedgerFull as error:
                return Verdict(outcome=Outcome.REJECTED_LIMIT, detail=str(error))
            if not isinstance(tried, float):
                return tried
            await self._clock.sleep(tried)
        raise KubeError(0, "Busy", f"no turn in {_CAS_ATTEMPTS} tries: others were faster, or the pace is slow")

    async def _try_to_reserve(
        self, intent: EvictionIntent, move: Move, *, dry_run: bool, doubt: Callable[[Ledger], Verdict | None]
    ) -> Verdict | Entry | float:
        """A number: so many seconds until its turn."""
        async with self._writing:
            held = await self._store.read()
            if isinstance(held, Closed):
                return Verdict(outcome=Outcome.PAUSED, detail=held.why)
            ledger = held.ledger
            if ledger.entry(intent.id) is not None:
                raise Taken(f"intent {intent.id} is in another binder's hands")
            # No later than the POST, and nothing was reserved between the ledger's reading and its writing.
            now = self.earliest
            verdict = doubt(ledger)
            if verdict is None:
                admission, ledger = await self._admit(intent, move, ledger, now, dry_run=dry_run)
                if admission.say == "wait":
                    return admission.wait
                verdict = admission.verdict
            if verdict is not None:
                await self._store.write(held, self._answered(ledger, intent, verdict, dry_run=dry_run))
                return verdict
            entry = entry_of(intent, now, workload=move.workload, expires_at=self._expiry(intent), dry_run=dry_run)
            await self._store.write(held, self._pruned(ledger).reserve(entry, epoch=intent.epoch), reserving=True)
            return entry

    async def _admit(
        self, intent: EvictionIntent, move: Move, ledger: Ledger, now: float, *, dry_run: bool
    ) -> tuple[Admission, Ledger]:
        """Asks the limits; when only moves under way speak against it, looks whether those are over by now."""
        admission = admit(intent, move, ledger, self._limits, now, dry_run=dry_run)
        if admission.say != "look":
            return admission, ledger
        over = await asyncio.gather(*(self._is_over(entry) for entry in admission.look_at))
        back = [entry.intent_id for entry, is_over in zip(admission.look_at, over, strict=True) if is_over]
        ledger = ledger.recovered(back, self.latest)
        admission = admit(intent, move, ledger, self._limits, now, dry_run=dry_run)
        if admission.say == "look":
            admission = msgspec.structs.replace(admission, say="refuse")
        return admission, ledger

    async def _is_over(self, entry: Entry) -> bool:
        return await has_recovered(
            self._kube, namespace=entry.namespace, pod=entry.pod, uid=entry.pod_uid, workload=entry.workload
        )

    async def settle(
        self, intent: EvictionIntent, verdict: Verdict, *, dry_run: bool, reserved: bool, counted: bool = True
    ) -> Entry | None:
        """Writes the outcome of an intent and returns what the ledger now says of it: the first outcome, for ever.

        None when there is no ledger to write to. Raises KubeError, and Taken when the intent is reserved by another.
        """

        def change(ledger: Ledger) -> Ledger:
            entry = ledger.entry(intent.id)
            if entry is None:
                return self._answered(ledger, intent, verdict, dry_run=dry_run)
            if not reserved and entry.outcome is None:
                raise Taken(f"intent {intent.id} is in another binder's hands")
            return ledger.settle(intent.id, verdict.outcome, self.latest, detail=verdict.detail, counted=counted)

        ledger = await self._write(change)
        return None if isinstance(ledger, Closed) else ledger.entry(intent.id)

    async def take_over(self, intent: EvictionIntent) -> None:
        """From now on more than one binder may post for this reservation. Raises KubeError."""
        await self._write(lambda ledger: ledger.take_over(intent.id))

    async def release(self, intent: EvictionIntent) -> None:
        """Gives a reservation back, to decide anew later. Raises KubeError."""
        await self._write(lambda ledger: ledger.release(intent.id))

    async def _write(self, change: Callable[[Ledger], Ledger]) -> Ledger | Closed:
        for _ in range(_CAS_ATTEMPTS):
            async with self._writing:
                held = await self._store.read()
                if isinstance(held, Closed):
                    return held
                ledger = change(held.ledger)
                if ledger == held.ledger:
                    return ledger
                try:
                    await self._store.write(held, ledger)
                except Conflict:
                    continue
                return ledger
        raise KubeError(0, "Busy", f"the ledger changed {_CAS_ATTEMPTS} times while settling")

    def _answered(self, ledger: Ledger, intent: EvictionIntent, verdict: Verdict, *, dry_run: bool) -> Ledger:
        entry = entry_of(
            intent, self.latest, workload=intent.workload, expires_at=self._expiry(intent), dry_run=dry_run
        )
        return self._pruned(ledger).answer(msgspec.structs.replace(entry, **msgspec.structs.asdict(verdict)))

    def _pruned(self, ledger: Ledger) -> Ledger:
        return ledger.pruned(self.earliest, memory=self._limits.memory + CLOCK_TOLERANCE)

    def _expiry(self, intent: EvictionIntent) -> float:
        """In the API server's time, as all times in the ledger."""
        return self._kube.server_time_bounds(intent.expires_at)[1]
