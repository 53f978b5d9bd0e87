"""Keeps the ledger for one binder: decides on the newest one, writes by compare-and-swap, tries again on conflict."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from equipoise.binder.decisions.admission import Admission, admit
from equipoise.binder.decisions.limits import Limits, Move
from equipoise.binder.decisions.outages import Outages
from equipoise.binder.decisions.preemptions import Preempted, with_preempted
from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.shell.ledger_store import Held, LedgerFull, LedgerStore
from equipoise.binder.shell.live_reads import read_replacement
from equipoise.binder.state.ledger import CLOCK_TOLERANCE, Closed, Entry, Ledger, Replacement, entry_of
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.kubernetes.client import Conflict, Kube, KubeError
from equipoise.runtime.process.clock import Clock

_CAS_ATTEMPTS = 30
"""Conflicts in a row after which an intent is left for later. A binder writes one at a time, so few are seen."""


class Taken(Exception):
    """Another binder is busy with this very intent."""


class Books:
    """All writes of one binder go through one lock, so that only different binders ever conflict."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        limits: Limits,
        namespace: str,
        preempted: Callable[[], Iterable[Preempted]] = tuple,
    ) -> None:
        """`preempted`: the pods that the bus tells to have been preempted of late."""
        self._preempted = preempted
        self.outages = Outages(limits.outage, clock.monotonic())
        self._kube = kube
        self._clock = clock
        self._limits = limits
        self._store = LedgerStore(kube, namespace)
        self._writing = asyncio.Lock()

    async def read(self) -> Held | Closed:
        """The ledger as it is now. Raises KubeError."""
        asked = self._clock.monotonic()
        try:
            held = await self._store.read()
        except KubeError as error:
            if error.status == 0 or error.status >= 500:
                self.outages.failed(asked)
            raise
        if isinstance(held, Closed):
            self.outages.failed(asked)
        else:
            self.outages.answered(self._clock.monotonic())
        return held

    async def bring_up_to_date(self) -> Ledger | Closed:
        """Writes what happened meanwhile and concerns every binder: outages, preemptions. Raises KubeError."""
        outage = ""

        def change(ledger: Ledger) -> Ledger:
            nonlocal outage
            outage = self.outages.pending
            return self._current(ledger)

        ledger = await self._write(change)
        if not isinstance(ledger, Closed):
            self.outages.written(outage)
        return ledger

    def _current(self, ledger: Ledger) -> Ledger:
        if self.outages.pending:
            ledger = ledger.after_outage(self.outages.pending, self.latest)
        within, memory = self._limits.preemptions.within, self._limits.memory
        return with_preempted(ledger, self._preempted(), self.earliest, within=within, memory=memory)

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
            held = await self.read()
            if isinstance(held, Closed):
                return Verdict(outcome=Outcome.PAUSED, detail=held.why)
            outage = self.outages.pending
            ledger = self._current(held.ledger)
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
                self.outages.written(outage)
                return verdict
            entry = entry_of(intent, now, workload=move.workload, expires_at=self._expiry(intent), dry_run=dry_run)
            await self._store.write(held, self._pruned(ledger).reserve(entry, epoch=intent.epoch), reserving=True)
            self.outages.written(outage)
            return entry

    async def _admit(
        self, intent: EvictionIntent, move: Move, ledger: Ledger, now: float, *, dry_run: bool
    ) -> tuple[Admission, Ledger]:
        """Asks the limits; before anything goes, and when only moves under way speak against it, looks after those."""
        admission = admit(intent, move, ledger, self._limits, now, dry_run=dry_run)
        if not admission.look_at:
            return admission, ledger
        looks = await asyncio.gather(*(self._replacement(entry, now) for entry in admission.look_at))
        names = (entry.intent_id for entry in admission.look_at)
        ledger = ledger.seen(dict(zip(names, looks, strict=True)), self.latest)
        admission = admit(intent, move, ledger, self._limits, now, dry_run=dry_run)
        if admission.say == "look":
            admission = msgspec.structs.replace(admission, say="refuse")
        return admission, ledger

    async def _replacement(self, entry: Entry, now: float) -> Replacement:
        settled = entry.settled_at is not None and now - entry.settled_at >= self._limits.replacement_settling
        return await read_replacement(self._kube, entry, settled=settled)

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
                held = await self.read()
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
