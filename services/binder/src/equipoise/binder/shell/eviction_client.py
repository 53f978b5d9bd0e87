"""Sends the POST of an eviction, interprets the response, and backs off from throttling and blocking budgets."""

from collections.abc import Callable

import msgspec

from equipoise.binder.decisions.eviction_response import EvictionResponse, read_response
from equipoise.binder.decisions.result import Finish, Proceed, Reservation, Retry, pod_left, retry
from equipoise.binder.shell.live_reads import has_left, read_pod
from equipoise.binder.state.backoff import Backoff, BudgetBackoff
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import EvictionResult, Kube
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

_API_SERVER = "the API server"
_FIRST_BACKOFF, _MAX_BACKOFF = 1.0, 60.0


class EvictionClient:
    def __init__(
        self, *, kube: Kube, clock: Clock, health: Health, sample_lifetime: float, random: Callable[[], float]
    ) -> None:
        """`sample_lifetime`: seconds for which a sample is fresh enough for an eviction. `random` returns 0..1."""
        self._kube = kube
        self._clock = clock
        self._health = health
        self._sample_lifetime = sample_lifetime
        self._throttling = Backoff(_FIRST_BACKOFF, _MAX_BACKOFF, random)
        self._budgets = BudgetBackoff(random)

    @property
    def throttled_for(self) -> float:
        """Seconds for which no request may be sent to the API server; 0 when one may."""
        return self._throttling.remaining(_API_SERVER, self._clock.monotonic())

    def throttle(self, seconds: float) -> float:
        """The API server throttles: this process works on no intent for a while. Returns the seconds."""
        waiting = self._throttling.refused(_API_SERVER, self._clock.monotonic(), seconds)
        self._health.set_problem("throttled", f"the API server throttles requests: the next one in {waiting:.0f} s")
        return waiting

    def end_throttling(self) -> None:
        """The API server responds normally."""
        self._throttling.reset(_API_SERVER)
        self._health.set_problem("throttled", None)

    def check_budget(self, intent: EvictionIntent, workload: Workload | None) -> Proceed[None] | Finish | Retry:
        """Does not proceed while the workload's disruption budget is in backoff."""
        budget, waiting = self._budgets.remaining(workload, self._clock.monotonic())
        if waiting <= 0:
            return Proceed(None)
        why = f"PodDisruptionBudget {budget} refused lately and is tried again in {waiting:.0f} s"
        finish = Finish(outcome=Outcome.BLOCKED_PDB, detail=why)
        return self._retry_while_fresh(intent, why, waiting) or finish

    async def evict(
        self, intent: EvictionIntent, workload: Workload | None, timeout: float, *, dry_run: bool, taken_over: bool
    ) -> Finish | Retry:
        """Sends the POST. Raises KubeError when it must read the pod and cannot.

        `taken_over`: another binder may have sent a POST for this reservation, so no response to ours returns it.
        """
        response = await self._post(intent, timeout, dry_run=dry_run)
        self._health.set_problem("eviction_refused", response.operator_action or None)
        refused: Reservation = "kept" if taken_over else "returned"
        if response.meaning == "blocked":
            waiting = self._budgets.refused(workload, intent.namespace, response.budget, self._clock.monotonic())
            again = self._retry_while_fresh(intent, response.why, waiting, reservation=refused)
            if again is not None:
                return again
        if response.meaning == "accepted":
            self._budgets.accepted(workload)
        if response.finish is not None:
            finish = response.finish
            if taken_over and finish.outcome in (Outcome.ALREADY_GONE, Outcome.UID_CHANGED):
                return pod_left(dry_run=dry_run)
            return msgspec.structs.replace(finish, reservation="kept" if response.meaning == "accepted" else refused)
        if response.meaning in ("unknown", "unexpected"):
            pod = await read_pod(self._kube, intent.namespace, intent.pod)
            if has_left(pod, intent.pod_uid):
                return pod_left(dry_run=dry_run)
            refused = "kept"  # this POST, or an earlier one, may still be carried out
        throttled = response.meaning == "throttled"
        waiting = self.throttle(response.retry_after) if throttled else response.retry_after
        again = retry(intent, response.why, at_least=waiting, reservation=refused)
        if response.meaning == "unexpected" or self._clock.now() + again.after >= intent.expires_at:
            detail = f"not carried out within its lifetime: {response.why}"
            return Finish(outcome=Outcome.FAILED, detail=detail, reservation=refused)
        return again

    def _retry_while_fresh(
        self, intent: EvictionIntent, why: str, at_least: float, *, reservation: Reservation = "none"
    ) -> Retry | None:
        """None when the intent would have expired by then, or its samples would be too old."""
        again = retry(intent, why, at_least=at_least, reservation=reservation)
        fresh_until = min(intent.expires_at, intent.sampled_at + self._sample_lifetime)
        return again if self._clock.now() + again.after < fresh_until else None

    async def _post(self, intent: EvictionIntent, timeout: float, *, dry_run: bool) -> EvictionResponse:
        """The ledger relies on the timeout: no POST is pending for longer than its intent lives."""
        request = self._kube.evict(intent.namespace, intent.pod, uid=intent.pod_uid, dry_run=dry_run)
        try:
            result = await run_with_guard(request, timeout_after(self._clock, timeout))
        except TimeoutError as error:
            result = EvictionResult(status=0, reason="Timeout", message=str(error))
        return read_response(
            result.status,
            result.message,
            disruption_budget=result.disruption_budget,
            budget=result.budget,
            retry_after=result.retry_after,
            dry_run=dry_run,
        )
