"""Creates evictions in a thread of its own: a slow API server must not delay the limits."""

from collections.abc import Callable, Collection, Sequence
from threading import Thread
from typing import Literal

from equipoise.agent.decisions.evictions import Victim
from equipoise.agent.shell.api_server import AgentApi, RequestFailed
from equipoise.agent.shell.log import Log
from equipoise.agent.shell.metrics import Metrics

RETRY_SECONDS = 60.0
"""The time before a pod that could not be evicted, for example because of a PodDisruptionBudget, is chosen again."""

DRY_RUN_COOLDOWN = 300.0
"""Seconds between two evictions that are only logged: the pods that they name keep running."""

Outcome = Literal["evicted", "dry_run", "blocked", "gone", "failed"]


class Evictor:
    """One list of victims at a time, with a cooldown by reason."""

    def __init__(
        self, api: AgentApi, log: Log, metrics: Metrics, *, evict: bool, monotonic: Callable[[], float]
    ) -> None:
        self._api = api
        self._log = log
        self._metrics = metrics
        self._evict = evict
        self._monotonic = monotonic
        self._thread: Thread | None = None
        self._next_at: dict[str, float] = {}
        self._failed: dict[str, float] = {}
        for reason in ("memory", "cpu"):  # the first one counts as an increase only if 0 was exported before
            metrics.add("equipoise_agent_evictions_total", 0.0, reason=reason, result="evicted" if evict else "dry_run")

    def unavailable(self) -> Collection[str]:
        """Uids of pods that are not chosen now: their eviction failed a short time ago."""
        now = self._monotonic()
        self._failed = {uid: at for uid, at in self._failed.items() if now - at < RETRY_SECONDS}
        return self._failed.keys()

    def may_evict(self, reason: str) -> bool:
        busy = self._thread is not None and self._thread.is_alive()
        return not busy and self._monotonic() >= self._next_at.get(reason, 0.0)

    def start(self, victims: Sequence[Victim], cooldown: float) -> None:
        if victims:
            pause = cooldown if self._evict else max(cooldown, DRY_RUN_COOLDOWN)
            self._next_at[victims[0].reason] = self._monotonic() + pause
            self._thread = Thread(target=self._run, args=(victims,), name="evictions", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Waits, `seconds` at most, until the evictions that were started have their results."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, victims: Sequence[Victim]) -> None:
        for victim in victims:
            outcome, error = self._outcome(victim)
            if outcome in ("blocked", "failed"):
                self._failed[victim.pod.uid] = self._monotonic()
            self._metrics.add("equipoise_agent_evictions_total", reason=victim.reason, result=outcome)
            facts = {"namespace": victim.pod.namespace, "pod": victim.pod.name, "reason": victim.text}
            self._log.info("eviction", result=outcome, **facts, **({"error": error} if error else {}))

    def _outcome(self, victim: Victim) -> tuple[Outcome, str]:
        if not self._evict:
            return "dry_run", ""
        try:
            self._api.evict(victim.pod.namespace, victim.pod.name, victim.pod.uid)
        except RequestFailed as error:
            # 409: another pod has this name by now.
            by_status: dict[int, Outcome] = {404: "gone", 409: "gone", 429: "blocked"}
            return by_status.get(error.status, "failed"), str(error)
        return "evicted", ""
