"""Sends the POST of an eviction, and backs off from throttling and from disruption budgets that block."""

from collections.abc import Callable
from dataclasses import dataclass

from equipoise.binder.decisions.eviction_response import EvictionResponse, after_response, read_response, while_blocked
from equipoise.binder.decisions.result import Finish, Proceed, Retry
from equipoise.binder.shell.live_reads import has_left
from equipoise.binder.state.backoff import Backoff, BudgetBackoff
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import PODS, EvictionResult, Kube, find
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

_API_SERVER = "the API server"
_FIRST_BACKOFF, _MAX_BACKOFF = 1.0, 60.0


@dataclass
class EvictionClient:
    kube: Kube
    clock: Clock
    health: Health
    sample_lifetime: float
    """Seconds for which a sample is fresh enough for an eviction."""

    random: Callable[[], float]
    """Returns 0..1."""

    def __post_init__(self) -> None:
        self._throttling = Backoff(_FIRST_BACKOFF, _MAX_BACKOFF, self.random)
        self._budgets = BudgetBackoff(self.random)

    @property
    def throttled_for(self) -> float:
        """Seconds for which no request may be sent to the API server; 0 when one may."""
        return self._throttling.remaining(_API_SERVER, self.clock.monotonic())

    def throttle(self, seconds: float) -> float:
        """Records that the API server throttles: this process works on no intent for a while. Returns the seconds."""
        waiting = self._throttling.refused(_API_SERVER, self.clock.monotonic(), seconds)
        self.health.set_problem("throttled", f"the API server throttles requests: the next one in {waiting:.0f} s")
        return waiting

    def end_throttling(self) -> None:
        """Records that the API server responds normally."""
        self._throttling.reset(_API_SERVER)
        self.health.set_problem("throttled", None)

    def check_budget(self, intent: EvictionIntent, workload: Workload | None) -> Proceed[None] | Finish | Retry:
        """Decides whether to proceed: not while the workload's disruption budget is in backoff."""
        budget, wait = self._budgets.remaining(workload, self.clock.monotonic())
        if wait <= 0:
            return Proceed(None)
        now = self.clock.now()
        return while_blocked(intent, budget, now=now, wait=wait, sample_lifetime=self.sample_lifetime)

    async def evict(
        self,
        intent: EvictionIntent,
        workload: Workload | None,
        *,
        within: float,
        timeout: float,
        dry_run: bool,
        taken_over: bool,
    ) -> Finish | Retry:
        """Sends the POST. Raises KubeError when it must read the pod and cannot.

        `within`: seconds within which the POST must be sent; `timeout`: seconds until the response; `taken_over`:
        another binder may have sent a POST for this reservation.
        """
        response = await self._post(intent, within, timeout, dry_run=dry_run)
        self.health.set_problem("eviction_refused", response.operator_action or None)
        wait, left = response.retry_after, False
        match response.meaning:
            case "accepted":
                self._budgets.accepted(workload)
            case "blocked":
                wait = self._budgets.refused(workload, intent.namespace, response.budget, self.clock.monotonic())
            case "throttled":
                wait = self.throttle(response.retry_after)
            case "unknown" | "unexpected":
                left = has_left(await find(self.kube, PODS, intent.pod, intent.namespace), intent.pod_uid)
        return after_response(
            intent,
            response,
            now=self.clock.now(),
            wait=wait,
            sample_lifetime=self.sample_lifetime,
            left=left,
            dry_run=dry_run,
            taken_over=taken_over,
        )

    async def _post(self, intent: EvictionIntent, within: float, timeout: float, *, dry_run: bool) -> EvictionResponse:
        """Sends the POST and reads the response. The ledger relies on the timeout: no POST is pending after its intent
        expires."""
        request = self.kube.evict(intent.namespace, intent.pod, uid=intent.pod_uid, dry_run=dry_run, within=within)
        try:
            result = await run_with_guard(request, timeout_after(self.clock, timeout))
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
