"""The POST of one eviction, what its answer means for the intent, and whom to leave alone afterwards."""

from collections.abc import Callable

import structlog

from equipoise.binder.decisions.backoff import BackOff
from equipoise.binder.decisions.blocking_budgets import BlockingBudgets
from equipoise.binder.decisions.ending import Ending, left, paused
from equipoise.binder.decisions.eviction_response import Reading, read_answer
from equipoise.binder.decisions.staleness import Verdict
from equipoise.binder.shell.ledger_writer import Books
from equipoise.binder.shell.live_reads import has_left, read_pod
from equipoise.binder.shell.validation import Examination, Passed
from equipoise.binder.state.ledger import Closed, Entry
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.bus import Redeliver
from equipoise.runtime.kubernetes.client import EvictionResponse, Kube
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

log = structlog.get_logger()

_TRIES = 5
"""An intent that cannot be decided now is tried this often within its life."""

_DECISION_LIFE = 2.0
"""Seconds after which a binder that was held up looks once more whether its decision still holds before it posts: a
pause is in force 5 s after it was said."""

_API_SERVER = "the API server"
_FIRST_BACK_OFF = 1.0
_LONGEST_BACK_OFF = 60.0


def again_for(intent: EvictionIntent, at_least: float = 0.0) -> Redeliver:
    """The tries that the queue allows are spread over the intent's life."""
    return Redeliver(after=max(at_least, (intent.expires_at - intent.decided_at) / _TRIES))


class Posting:
    def __init__(
        self,
        *,
        kube: Kube,
        clock: Clock,
        books: Books,
        examination: Examination,
        health: Health,
        sample_life: float,
        chance: Callable[[], float],
    ) -> None:
        """`sample_life`: seconds for which a sample may be acted upon. `chance` gives 0..1."""
        self._kube = kube
        self._clock = clock
        self._books = books
        self._examination = examination
        self._health = health
        self._sample_life = sample_life
        self._throttle = BackOff(_FIRST_BACK_OFF, _LONGEST_BACK_OFF, chance)
        self._budgets = BlockingBudgets(chance)

    @property
    def left_alone(self) -> float:
        """Seconds for which nothing may be asked of the API server; 0 when it may."""
        return self._throttle.remaining(_API_SERVER, self._clock.monotonic())

    def leave_alone(self, seconds: float) -> float:
        """Flow control struck: no intent of this process is worked on for a while. Returns the seconds."""
        waiting = self._throttle.refused(_API_SERVER, self._clock.monotonic(), seconds)
        why = f"the API server wants to be left alone: nothing is tried for {waiting:.0f} s"
        self._health.set_problem("throttled", why)
        return waiting

    def answered(self) -> None:
        """The API server answers again as it should."""
        self._throttle.agreed(_API_SERVER)
        self._health.set_problem("throttled", None)

    def blocked(self, intent: EvictionIntent, workload: Workload | None, *, dry_run: bool) -> Redeliver | Ending | None:
        """None when the workload's disruption budget may be asked, else what to do instead."""
        budget, waiting = self._budgets.remaining(workload, self._clock.monotonic())
        if waiting <= 0:
            return None
        why = f"PodDisruptionBudget {budget} allowed nothing of late and is asked again in {waiting:.0f} s"
        verdict = Verdict(outcome=Outcome.BLOCKED_PDB, detail=why)
        return self._while_usable(intent, waiting) or Ending(verdict=verdict, dry_run=dry_run)

    async def post(
        self, intent: EvictionIntent, entry: Entry, examined: Passed, asked_at: float, *, dry_run: bool, inherited: bool
    ) -> Redeliver | Ending:
        """Asks the API server to evict. `inherited`: somebody may have asked before, so nothing is given back."""
        if self._clock.monotonic() - asked_at > _DECISION_LIFE:
            doubt = await self._second_thought(intent, examined)
            if doubt is not None:
                return Ending(verdict=doubt, reserved=True, counted=inherited)
        life = entry.expires_at - self._books.latest
        if life <= 0:
            late = Verdict(outcome=Outcome.EXPIRED, detail="expired while it was reserved")
            return Ending(verdict=late, reserved=True, counted=inherited)
        reading = await self._ask_to_evict(intent, life, dry_run=dry_run)
        self._health.set_problem("eviction refused", reading.operator or None)
        workload = examined.move.workload
        if reading.meaning == "blocked":
            waiting = self._budgets.blocked(workload, intent.namespace, reading.budget, self._clock.monotonic())
            again = self._while_usable(intent, waiting)
            if again is not None:
                return await self._later(intent, again, reading, inherited=inherited)
        if reading.verdict is not None:
            return self._ended(reading, reading.verdict, workload=entry.workload, dry_run=dry_run, inherited=inherited)
        # No definite answer, or one that somebody else's earlier POST may have caused: look.
        if reading.meaning in ("unknown", "strange"):
            pod = await read_pod(self._kube, intent.namespace, intent.pod)
            if has_left(pod, intent.pod_uid):
                return Ending(verdict=left(dry_run=dry_run), reserved=True)
        waiting = self.leave_alone(reading.retry_after) if reading.meaning == "throttled" else reading.retry_after
        again = again_for(intent, waiting)
        if reading.meaning == "strange" or self._clock.now() + again.after >= intent.expires_at:
            # Counted unless this POST was definitely refused: an unanswered one may still be carried out.
            failed = Verdict(outcome=Outcome.FAILED, detail=f"not carried out within its life: {reading.why}")
            refused = reading.meaning in ("later", "throttled")
            return Ending(verdict=failed, reserved=True, counted=inherited or not refused)
        return await self._later(intent, again, reading, inherited=inherited)

    async def _second_thought(self, intent: EvictionIntent, examined: Passed) -> Verdict | None:
        """What may have changed since the decision, if the binder was held up: a pause, the leader, time."""
        held = await self._books.read()
        if isinstance(held, Closed):
            return Verdict(outcome=Outcome.PAUSED, detail=held.why)
        if held.ledger.paused:
            return paused(held.ledger.paused_why)
        return self._examination.doubt(intent, examined.lease, held.ledger)

    def _ended(
        self, reading: Reading, verdict: Verdict, *, workload: Workload | None, dry_run: bool, inherited: bool
    ) -> Ending:
        """A definite answer."""
        if reading.meaning == "done":
            self._budgets.allowed(workload)
        if inherited and verdict.outcome in (Outcome.ALREADY_GONE, Outcome.UID_CHANGED):
            verdict = left(dry_run=dry_run)
        counted = inherited or reading.meaning == "done"
        return Ending(verdict=verdict, reserved=True, counted=counted, of_workload=reading.of_workload)

    async def _later(self, intent: EvictionIntent, again: Redeliver, reading: Reading, *, inherited: bool) -> Redeliver:
        """Gives the reservation back if its POST was definitely refused."""
        if reading.meaning != "unknown" and not inherited:
            await self._books.release(intent)
        log.warning(
            "intent put off",
            intent=intent.id,
            pod=f"{intent.namespace}/{intent.pod}",
            why=reading.why,
            after=again.after,
        )
        return again

    def _while_usable(self, intent: EvictionIntent, at_least: float) -> Redeliver | None:
        """None: by then it would have expired, or its samples would be too old."""
        again = again_for(intent, at_least)
        usable_until = min(intent.expires_at, intent.sampled_at + self._sample_life)
        return again if self._clock.now() + again.after < usable_until else None

    async def _ask_to_evict(self, intent: EvictionIntent, seconds: float, *, dry_run: bool) -> Reading:
        """The ledger relies on it that no POST is under way for longer than its intent lives."""
        request = self._kube.evict(intent.namespace, intent.pod, uid=intent.pod_uid, dry_run=dry_run)
        try:
            answer = await run_with_guard(request, timeout_after(self._clock, seconds))
        except TimeoutError as error:
            answer = EvictionResponse(status=0, reason="Timeout", message=str(error))
        return read_answer(
            answer.status,
            answer.message,
            disruption_budget=answer.disruption_budget,
            budget=answer.budget,
            retry_after=answer.retry_after,
            dry_run=dry_run,
        )
