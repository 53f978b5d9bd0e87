"""Writes the ledger for one binder: decides on the newest one, and again whenever its compare-and-swap conflicts."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

import msgspec
import structlog

from equipoise.binder.decisions.admission import Admission, admit, campaign_of, deciding_replacements
from equipoise.binder.decisions.campaign import ClusterEvaluation, continued
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.preemptions import with_preempted
from equipoise.binder.decisions.result import Finish, Proceed, Retry, retry_while_fresh
from equipoise.binder.decisions.surge.plan import SurgePlan, slot_refusal
from equipoise.binder.shell.ledger_store import ADVICE, LedgerFull, LedgerStore, StoredLedger
from equipoise.binder.shell.recent_workloads import DecisionReads, RecentWorkloads
from equipoise.binder.state.cluster_state import PreemptedPod
from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.binder.state.ledger_entry import LedgerEntry, new_entry
from equipoise.binder.state.ledger_times import counting_again, with_possible_times
from equipoise.binder.state.outages import Outages
from equipoise.binder.state.surge_move import RESERVED, SurgeMove
from equipoise.contracts.clock_skew import skew_problem
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.kubernetes.client import Conflict, Kube, KubeError
from equipoise.runtime.kubernetes.http.server_clock import DRIFT
from equipoise.runtime.process.clock import Clock

_CAS_ATTEMPTS = 30
"""Conflicts in a row after which an intent is retried later. A binder writes one at a time, so few occur."""

MAX_READ_AGE = 2.0
"""Seconds. No eviction is requested on a read that began earlier, whatever the binder waited for since: the rate,
conflicts, a slow write, a slow read, or being suspended. Refusals use a recent read of the ledger, too."""

log = structlog.get_logger()

Recheck = Callable[[Ledger], Finish | Retry | None]


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """A new reservation."""

    entry: LedgerEntry
    read_at: float
    """The time at which the oldest read of a workload that it is based on began, on the monotonic clock; infinite
    without one."""


class HandledByAnotherBinder(Exception):
    """Another binder has reserved this intent."""


class LedgerWriter:
    """All writes of one binder go through one lock, so that only different binders conflict."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        limits: Limits,
        namespace: str,
        *,
        dry_run: bool,
        max_skew: float = math.inf,
        preempted: Callable[[], Iterable[PreemptedPod]] = tuple,
        evaluation: Callable[[], ClusterEvaluation | None] = lambda: None,
        surge: SurgeSettings = SurgeSettings(),  # noqa: B008  a frozen value
        sample_lifetime: float = 120.0,
    ) -> None:
        """`preempted`: the pods that were preempted lately, as the bus reports them.

        `evaluation`: the latest evaluation of the descheduler.

        `max_skew`: seconds by which this machine's clock and the API server's may differ. `sample_lifetime`: seconds
        for which a sample is fresh enough for an eviction.
        """
        self.outages = Outages(limits.outage_threshold, clock.monotonic())
        self._preempted = preempted
        self._evaluation = evaluation
        self._surge = surge
        self._sample_lifetime = sample_lifetime
        self.surge_pods: tuple[str, ...] = ()
        """The UIDs of the pods that were moved without a gap when the ledger was last read or written."""

        self._kube = kube
        self._clock = clock
        self._limits = limits
        self._dry_run = dry_run
        self._max_skew = max_skew
        self._store = LedgerStore(kube, namespace)
        self._workloads = RecentWorkloads(kube, clock)
        self._settling = limits.replacement_settling_period
        self._writing = asyncio.Lock()

    async def read(self) -> Ledger | LedgerClosed:
        """The ledger as it is now. Raises KubeError."""
        stored = await self._read()
        return stored if isinstance(stored, LedgerClosed) else stored.ledger

    async def _read(self) -> StoredLedger | LedgerClosed:
        """Reads the ledger, and once more after a suspension or a slow response: other binders may have decided
        since."""
        started_at = self._clock.monotonic()
        stored = await self._read_once()
        if self._clock.monotonic() - started_at < MAX_READ_AGE:
            return stored
        return await self._read_once()

    async def _read_once(self) -> StoredLedger | LedgerClosed:
        started_at = self._clock.monotonic()
        try:
            stored = await self._store.read()
        except KubeError as error:
            if error.status == 0 or error.status >= 500:
                self.outages.request_failed(started_at)
            raise
        if isinstance(stored, LedgerClosed):
            self.outages.request_failed(started_at)
            return stored
        self.outages.ledger_read(self._clock.monotonic())
        self.surge_pods = stored.ledger.surge_pods
        now = self._clock.now()
        earliest, latest = self._kube.server_time_bounds(now)
        if problem := skew_problem(earliest, latest, now, self._max_skew):
            return LedgerClosed(why=problem)
        self.outages.clock_read(earliest, latest, self._clock.monotonic(), drift=DRIFT)
        if problem := stored.ledger.problem(latest):
            return LedgerClosed(why=f"the ledger was edited: {problem}. Restore them, or {ADVICE}")
        return stored

    @property
    def earliest(self) -> float:
        """The earliest possible time of the API server's clock. Decisions use it."""
        return self._kube.server_time_bounds(self._clock.now())[0]

    @property
    def latest(self) -> float:
        """The latest possible time of the API server's clock. What has ended is recorded with it."""
        return self._kube.server_time_bounds(self._clock.now())[1]

    async def update(self) -> Ledger | LedgerClosed:
        """Writes what concerns every binder: outages, preemptions, a longer retention. Raises KubeError."""
        outage = ""

        def change(ledger: Ledger) -> Ledger:
            nonlocal outage
            outage = self.outages.pending
            return self._updated(ledger)

        ledger = await self._write(change)
        if not isinstance(ledger, LedgerClosed):
            self.outages.written(outage)
        return ledger

    async def update_replacements(self, ledger: Ledger) -> Ledger | LedgerClosed:
        """Writes which pending replacements are ready or cannot be created. Raises KubeError.

        They are read even if no eviction is pending: otherwise one that has long been ready counts as late until the
        next.
        """
        now = self.earliest
        view = ledger.view(now, dry_run=False, migration_timeout=self._limits.migration_timeout)
        statuses = await DecisionReads(self._workloads).statuses(view.pending_replacements(), now, self._settling)
        if ledger.with_replacements(statuses, now) == ledger:
            return ledger
        return await self._write(lambda current: current.with_replacements(statuses, self.latest))

    def _updated(self, ledger: Ledger) -> Ledger:
        ledger = with_possible_times(ledger, self.latest)
        if self.outages.clock_set_forward:
            ledger = counting_again(ledger, self.latest)
        if self.outages.pending:
            ledger = ledger.after_outage(self.outages.pending, self.latest)
        within, retention = self._limits.preemptions.within, self._limits.retention
        if ledger.retention < retention:
            ledger = ledger.retaining(retention, self.earliest)
        ledger = with_preempted(ledger, self._preempted(), self.earliest, within=within, retention=retention)
        return continued(ledger, self._evaluation(), self._limits, self.earliest)

    async def reserve(
        self, intent: EvictionIntent, eviction: ProposedEviction, recheck: Recheck, plan: SurgePlan | None = None
    ) -> Proceed[Reserved] | Finish | Retry:
        """The reservation, with a `plan` that of a move without a gap, or a refusal or delay.

        Raises KubeError and HandledByAnotherBinder.

        A refusal writes only what the reads of replacements have shown. `recheck` is called for every ledger that is
        tried, because time passes.
        """
        for _ in range(_CAS_ATTEMPTS):
            try:
                result = await self._try_to_reserve(intent, eviction, recheck, plan)
            except Conflict:
                continue
            except LedgerFull as error:
                return Finish(outcome=Outcome.REJECTED_LIMIT, detail=str(error), recorded=True)
            if not isinstance(result, float):
                return result
            await self._clock.sleep(result)
        raise KubeError(0, "Busy", f"no reservation in {_CAS_ATTEMPTS} attempts: conflicts, or limits.rate is low")

    async def _try_to_reserve(
        self, intent: EvictionIntent, eviction: ProposedEviction, recheck: Recheck, plan: SurgePlan | None
    ) -> Proceed[Reserved] | Finish | Retry | float:
        """A number of seconds when the intent has to wait for the rate, after which it is tried with a new ledger."""
        async with self._writing:
            stored = await self._read()
            if isinstance(stored, LedgerClosed):
                return Finish(outcome=Outcome.PAUSED, detail=stored.why, recorded=True)
            outage = self.outages.pending
            ledger = self._updated(stored.ledger)
            if ledger.entry(intent.id) is not None:
                raise HandledByAnotherBinder(f"intent {intent.id} is reserved by another binder")
            # This time is not later than the POST, and no binder reserves between this read and the write.
            now = self.earliest
            changed = recheck(ledger)
            if isinstance(changed, Retry):
                return changed
            result: Admission | None = changed
            reads = DecisionReads(self._workloads)
            if result is None:
                no_slot = None if plan is None else self._without_slot(ledger, intent, plan, now)
                if no_slot is None or not self._deciding(ledger, intent, eviction, now):
                    result, read = await self._admitted(intent, eviction, ledger, now, reads)
                    if isinstance(result, Finish) and reads.shared:
                        reads = reads.anew()
                        result, read = await self._admitted(intent, eviction, ledger, now, reads)
                    ledger = read
                    if isinstance(result, Retry):
                        return result.after
                if no_slot is not None and not isinstance(result, Finish):
                    result = no_slot
            if isinstance(result, Retry):
                return result
            if isinstance(result, Finish):
                if ledger != stored.ledger:
                    await self._save(stored, self._pruned(ledger))
                    self.outages.written(outage)
                return msgspec.structs.replace(result, recorded=True)
            campaign = campaign_of(intent, ledger, now, dry_run=self._dry_run)
            entry = self._new_entry(intent, eviction, now, campaign)
            ledger = self._pruned(ledger).reserve(entry, epoch=intent.epoch)
            if plan is not None and not self._dry_run:
                ledger = ledger.with_surge_move(plan.move(intent, now, self._surge.ready_timeout))
            await self._save(stored, ledger, reserving=True)
            self.outages.written(outage)
            return Proceed(Reserved(entry=entry, read_at=reads.oldest))

    def _without_slot(self, ledger: Ledger, intent: EvictionIntent, plan: SurgePlan, now: float) -> Admission | None:
        """A delay while other moves take all slots: most of them end before the samples of the intent are too old."""
        if not (why := slot_refusal(ledger, plan.workload, self._surge.max_moves)):
            return None
        return retry_while_fresh(intent, why, Outcome.REJECTED_LIMIT, now=now, sample_lifetime=self._sample_lifetime)

    async def check_limits(self, intent: EvictionIntent, eviction: ProposedEviction, ledger: Ledger) -> Finish | None:
        """Why an intent that has a reservation in this ledger would not get one now. Nothing is used that was read for
        another decision. Raises KubeError."""
        now = self.earliest
        reads = DecisionReads(self._workloads).anew()
        result, _ = await self._admitted(intent, eviction, self._updated(ledger), now, reads)
        return result if isinstance(result, Finish) else None

    def _deciding(
        self, ledger: Ledger, intent: EvictionIntent, eviction: ProposedEviction, now: float
    ) -> Sequence[LedgerEntry]:
        return deciding_replacements(intent, eviction, ledger, self._limits, now, dry_run=self._dry_run)

    async def _admitted(
        self, intent: EvictionIntent, eviction: ProposedEviction, ledger: Ledger, now: float, reads: DecisionReads
    ) -> tuple[Admission, Ledger]:
        """What the limits decide, and the ledger with the replacements that were read for it."""
        if pending := self._deciding(ledger, intent, eviction, now):
            ledger = ledger.with_replacements(await reads.statuses(pending, now, self._settling), self.latest)
        return admit(intent, eviction, ledger, self._limits, now, dry_run=self._dry_run), ledger

    async def settle(self, intent: EvictionIntent, finish: Finish) -> LedgerEntry | None:
        """Records the outcome of a reservation and returns its entry, which keeps the first outcome.

        An outcome without a reservation is not written, but must not contradict the reservation of another binder.
        None when the ledger has no entry, or is closed. Raises KubeError, and HandledByAnotherBinder when another
        binder has reserved the intent.
        """
        if finish.reservation == "none":
            ledger = await self.read()
        else:
            counted = finish.reservation != "returned"
            ledger = await self._write(
                lambda ledger: ledger.settle(
                    intent.id, finish.outcome, self.latest, detail=finish.detail, counted=counted
                )
            )
        entry = None if isinstance(ledger, LedgerClosed) else ledger.entry(intent.id)
        if finish.reservation == "none" and entry is not None and entry.outcome is None:
            raise HandledByAnotherBinder(f"intent {intent.id} is reserved by another binder")
        return entry

    async def take_over(self, intent: EvictionIntent) -> LedgerEntry | None:
        """Records that from now on more than one binder may send a POST for this reservation.

        Returns its entry, which may have been settled meanwhile; None when it was returned. Raises KubeError.
        """
        ledger = await self._write(lambda ledger: ledger.take_over(intent.id))
        return None if isinstance(ledger, LedgerClosed) else ledger.entry(intent.id)

    async def release(self, intent: EvictionIntent) -> None:
        """Removes a reservation; the intent is decided again later. Raises KubeError."""
        await self._write(lambda ledger: ledger.release(intent.id))

    async def change_surge_move(self, before: SurgeMove, after: SurgeMove) -> bool:
        """Writes a move that the ledger has exactly as `before`. False if another binder has changed it since.

        Raises KubeError.
        """
        written = False

        def change(ledger: Ledger) -> Ledger:
            nonlocal written
            written = ledger.surge_move(before.intent.id) == before
            return ledger.with_surge_move(after) if written else ledger

        return not isinstance(await self._write(change), LedgerClosed) and written

    async def cancel_surge_move(self, intent: EvictionIntent) -> bool:
        """Removes a move whose pod this binder did not detach, with its reservation, so that the intent is decided
        again. False if another binder has continued with the move. Raises KubeError."""
        removed = False

        def change(ledger: Ledger) -> Ledger:
            nonlocal removed
            move = ledger.surge_move(intent.id)
            removed = move is not None and move.stage == RESERVED
            return ledger.without_surge_move(intent.id).release(intent.id) if removed else ledger

        return not isinstance(await self._write(change), LedgerClosed) and removed

    async def end_surge_move(self, move: SurgeMove) -> None:
        """Removes a move whose outcome is published. Raises KubeError."""
        await self._write(lambda ledger: ledger.without_surge_move(move.intent.id))

    async def _write(self, change: Callable[[Ledger], Ledger]) -> Ledger | LedgerClosed:
        for _ in range(_CAS_ATTEMPTS):
            async with self._writing:
                stored = await self._read()
                if isinstance(stored, LedgerClosed):
                    return stored
                ledger = change(stored.ledger)
                if ledger == stored.ledger:
                    return ledger
                try:
                    await self._save(stored, ledger)
                except Conflict:
                    continue
                return ledger
        raise KubeError(0, "Busy", f"the ledger changed in each of {_CAS_ATTEMPTS} attempts to write it")

    async def _save(self, stored: StoredLedger, ledger: Ledger, *, reserving: bool = False) -> None:
        await self._store.write(stored, ledger, reserving=reserving)
        self.surge_pods = ledger.surge_pods
        if ledger.outage_ended_at != stored.ledger.outage_ended_at:
            log.warning("limits are halved for the grace period", why=ledger.outage)
        campaign, before = ledger.campaign, stored.ledger.campaign
        if campaign is not None and campaign.ended_at is not None and before is not None and before.ended_at is None:
            log.info("campaign ended", name=campaign.name, why=campaign.ended, moves=campaign.used)

    def _new_entry(self, intent: EvictionIntent, eviction: ProposedEviction, now: float, campaign: str) -> LedgerEntry:
        expires_at = self._kube.server_time_bounds(intent.expires_at)[1]
        workload = eviction.workload
        replicas = None if workload is None else eviction.replicas
        return new_entry(
            intent,
            now,
            workload=workload,
            expires_at=expires_at,
            dry_run=self._dry_run,
            replicas=replicas,
            campaign=campaign,
        )

    def _pruned(self, ledger: Ledger) -> Ledger:
        return ledger.retaining(self._limits.retention, self.earliest).pruned(self.earliest)
