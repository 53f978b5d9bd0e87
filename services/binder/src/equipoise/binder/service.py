"""Takes each intent from the queue to its outcome, in an order in which a crash at any point is safe."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
import structlog
from prometheus_client import Histogram

from equipoise.binder.decisions.campaign import ClusterEvaluation
from equipoise.binder.decisions.event import fence_probe
from equipoise.binder.decisions.result import (
    Begun,
    Finish,
    Proceed,
    Reservation,
    Retry,
    paused,
    pod_left,
    published,
    recorded,
    retry,
)
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.eviction_client import EvictionClient
from equipoise.binder.shell.ledger_watch import LedgerWatch
from equipoise.binder.shell.ledger_writer import MAX_READ_AGE, HandledByAnotherBinder, LedgerWriter
from equipoise.binder.shell.live_reads import has_left
from equipoise.binder.shell.metrics import BinderMetrics
from equipoise.binder.shell.outcome_reporter import OutcomeReporter
from equipoise.binder.shell.surge_mover import SurgeMover
from equipoise.binder.shell.validation import Validation, ValidIntent
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.binder.state.published_outcomes import PublishedOutcomes
from equipoise.contracts.bus import channels
from equipoise.contracts.load.latest import is_acceptable
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.runtime.bus import BusError, Delivery, NotPermitted, Redeliver
from equipoise.runtime.kubernetes.client import EVENTS, PODS, KubeError, UnreadableObject, find
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.installation import InstallationCheck
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()

_FENCE = "equipoise-binder-fence"
"""The admission policy that restricts this ServiceAccount. Nothing is evicted before it is in effect."""

_SURGE_FENCE = "equipoise-surge-fence"
"""The admission policy that restricts which labels of pods it changes. No pod is detached before it is in effect."""

SURGE_PROBE = "equipoise-surge-fence-check"
"""The name of the Event that this policy refuses."""

_SLOW_READS = f"the API server needs more than {MAX_READ_AGE:.0f} s for what must be read before an eviction"

_VALIDATIONS = 3
"""How often an intent with a reservation is validated anew before its reservation is returned: an API server that needs
longer than `MAX_READ_AGE` for the reads of one intent causes a delay, and no eviction."""


class Binder:
    """Any number of binders share the queue; the ledger keeps them within one set of limits."""

    def __init__(
        self,
        runtime: Runtime[BinderSettings],
        *,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`random` returns 0..1; it is the jitter of backoffs."""
        settings, shared = runtime.own, runtime.configuration.shared
        kube, clock, namespace = runtime.kube, runtime.clock, shared.kubernetes.namespace
        self._bus = runtime.bus
        self._kube = kube
        self._clock = clock
        self._health = runtime.health
        self._namespace = namespace
        self._concurrency = settings.concurrency
        self._dry_run = not settings.evict
        self._surge = shared.rules.surge != "none"
        self._cluster = ClusterState(shared.load)
        self._installation = InstallationCheck(kube, namespace, clock, runtime.health)
        self._validation = Validation(
            kube, clock, self._cluster, self._installation, shared, settings.max_intent_lifetime
        )
        self._ledger = LedgerWriter(
            kube,
            clock,
            settings.limits,
            namespace,
            dry_run=self._dry_run,
            max_skew=shared.load.freshness.skew_unknown,
            preempted=lambda: self._cluster.preempted,
            evaluation=lambda: self._cluster.evaluation,
            surge=shared.surge,
            sample_lifetime=shared.load.freshness.eviction,
        )
        evictions = DRY_RUN if self._dry_run else REAL
        metrics = BinderMetrics(settings.limits, runtime.metrics)
        self._client = EvictionClient(
            kube, clock, runtime.health, sample_lifetime=shared.load.freshness.eviction, random=random
        )
        self._published = PublishedOutcomes()
        self._reporter = OutcomeReporter(runtime, self._published, metrics, now=lambda: self._ledger.latest)
        self._ledger_watch = LedgerWatch(
            self._ledger,
            clock,
            runtime.health,
            evictions=evictions,
            installation=self._installation,
            metrics=metrics,
            on_campaign_end=self._reporter.write_campaign_end,
        )
        self._mover = SurgeMover(
            kube,
            clock,
            runtime.health,
            self._ledger,
            self._cluster,
            shared,
            lambda intent, finish: self._report(intent, finish, final=False),
            random=random,
            dry_run=self._dry_run,
        )
        self._duration = Histogram(
            "equipoise_binder_intent_duration_seconds",
            "Time from the delivery of an intent to its outcome.",
            registry=runtime.metrics,
        )

    async def attach(self) -> None:
        """Subscribes to the cluster's state and to the outcomes of all binders.

        `run` opens the work queue, once the latest messages are known.
        """
        # The bus is available while it delivers measurements, even those of a clock that is wrong.
        await self._bus.follow(channels.NODE_UTILIZATIONS, self.on_node_utilization, keep_future=True)
        await self._bus.follow(channels.WORKLOAD_UTILIZATIONS, self._cluster.on_workload)
        await self._bus.follow(channels.UTILIZATION_CYCLES, self.on_utilization_cycle, keep_future=True)
        await self._bus.follow(channels.NODE_PLACEMENTS, self.on_node_placement)
        try:
            evaluations = channels.DESCHEDULE_DECISIONS.reading(ClusterEvaluation)
            await self._bus.follow(evaluations, self._cluster.on_evaluation)
        except NotPermitted as error:  # the server has the permissions of an earlier version
            log.warning("no campaign permits any move", why=str(error))
        await self._bus.follow(channels.EVICTION_OUTCOMES, lambda message, _: self._published.add(message))

    async def run(self) -> None:
        """Works until canceled."""
        probe = fence_probe(self._namespace, PROBE, self._clock.now())
        await until_fenced(self._kube, _FENCE, EVENTS, probe, self._clock, self._health)
        if self._surge:
            probe = fence_probe(self._namespace, SURGE_PROBE, self._clock.now())
            await until_fenced(self._kube, _SURGE_FENCE, EVENTS, probe, self._clock, self._health)
        await self._installation.check()
        await self._ledger_watch.synchronize()
        self._health.warmed_up()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._installation.run(), name="check for other installations")
            tasks.create_task(self._ledger_watch.run(), name="watch the ledger")
            tasks.create_task(self._mover.run(), name="carry on moves without a gap")
            tasks.create_task(
                self._bus.work(EvictionIntent, self.on_eviction_intent, concurrency=self._concurrency),
                name="work on intents",
            )

    def on_node_utilization(self, message: NodeUtilization, now: float) -> bool:
        self._ledger.outages.message_received(self._clock.monotonic())
        return is_acceptable(message, now) and self._cluster.on_utilization(message, now)

    def on_utilization_cycle(self, message: UtilizationCycle, now: float) -> bool:
        self._ledger.outages.message_received(self._clock.monotonic())
        return is_acceptable(message, now) and self._cluster.on_cycle(message, now)

    def on_node_placement(self, message: NodePlacement, now: float) -> bool:
        self._ledger.outages.message_received(self._clock.monotonic())
        return self._cluster.on_placement(message, now)

    async def on_eviction_intent(self, delivery: Delivery[EvictionIntent]) -> Redeliver | None:
        """None acknowledges the intent: its outcome is published, or another binder publishes it."""
        intent, started_at = delivery.message, self._clock.monotonic()
        try:
            result = await self._process(intent)
            if isinstance(result, Retry) and delivery.last_attempt:
                detail = f"delivered too often without a result: {result.why}"
                result = self._undecided(intent, Outcome.FAILED, detail)
            if isinstance(result, Begun):
                return None
            if isinstance(result, Finish):
                await self._report(intent, result, final=delivery.last_attempt)
                self._duration.observe(self._clock.monotonic() - started_at)
                return None
        except (HandledByAnotherBinder, BusError) as error:
            result = retry(intent, str(error))
            if delivery.last_attempt and isinstance(error, HandledByAnotherBinder):
                # One outcome is kept per intent: "failed" from here would replace the other binder's eviction.
                return None
        pod = intent.pod_name
        log.warning("intent delayed", intent=intent.id, pod=pod, why=result.why, after=result.after)
        return Redeliver(after=result.after)

    async def _process(self, intent: EvictionIntent) -> Finish | Retry | Begun:
        """Decides, evicts and records the outcome, also while the API server does not respond. Raises
        HandledByAnotherBinder."""
        if waiting := self._client.throttled_for:
            return self._unavailable(intent, "the API server throttles requests", waiting)
        try:
            result = await self._carry_out(intent)
            if isinstance(result, Begun):
                return result
            if isinstance(result, Retry):
                if result.reservation == "returned":
                    await self._ledger.release(intent)
                return result
            finish = await self._record(intent, result)
        except KubeError as error:
            if error.status == 429:
                self._client.throttle(error.retry_after or 0.0)
            return self._unavailable(intent, str(error), error.retry_after or 0.0)
        self._client.end_throttling()
        return finish

    def _unavailable(self, intent: EvictionIntent, why: str, at_least: float) -> Finish | Retry:
        """Retries while the intent lives. Afterwards it has failed; a reservation remains in the ledger and counts."""
        again = retry(intent, why, at_least=at_least)
        if self._clock.now() + again.after < intent.expires_at:
            return again
        return self._undecided(intent, Outcome.FAILED, f"not decided within its lifetime: {why}")

    def _undecided(self, intent: EvictionIntent, outcome: Outcome, detail: str) -> Finish:
        """The outcome of an intent whose ledger entry is unknown. An outcome that was published before stays."""
        if (earlier := self._published.get(intent.id)) is not None:
            return published(earlier)
        return Finish(outcome=outcome, detail=detail, recorded=True)

    # The path of an intent

    async def _carry_out(self, intent: EvictionIntent) -> Finish | Retry | Begun:
        """Takes an intent from the ledger entry over validation (age, epoch, pod, protection, fit), budget backoff,
        limits and reservation to the POST.
        """
        read_at = self._clock.monotonic()
        ledger = await self._ledger.read()
        self._ledger_watch.report(ledger)
        if isinstance(ledger, LedgerClosed):
            if ledger.unreadable:  # an API server that has just started refuses what it permits a second later
                return self._unavailable(intent, ledger.why, 0.0)
            return self._undecided(intent, Outcome.PAUSED, ledger.why)
        entry = ledger.entry(intent.id)
        if entry is not None and entry.outcome is not None:
            return recorded(entry)
        if (outcome := self._published.get(intent.id)) is not None:
            return published(outcome)
        if ledger.surge_move(intent.id) is not None:
            return Begun()
        if entry is not None:
            return await self._take_over(intent, entry)
        valid = await self._validation.validate(intent, ledger, read_at)
        if not isinstance(valid, Proceed):
            return valid
        plan = valid.value.surge
        budget = self._client.check_budget(intent, valid.value.eviction.workload)
        if plan is None and not isinstance(budget, Proceed):
            return budget
        recheck = partial(self._validation.recheck, intent, valid.value.lease)
        reserved = await self._ledger.reserve(intent, valid.value.eviction, recheck, plan)
        if not isinstance(reserved, Proceed):
            return reserved
        if plan is not None and self._dry_run:
            detail = "it can be moved without a gap"
            return Finish(outcome=Outcome.DRY_RUN, detail=detail, reservation="kept", without_gap=True)
        read_at = min(valid.value.read_at, reserved.value.read_at)
        if plan is not None:
            self._health.surge_pods = self._ledger.surge_pods
            within = read_at + MAX_READ_AGE - self._clock.monotonic()
            if within <= 0 and await self._ledger.cancel_surge_move(intent):
                return retry(intent, _SLOW_READS)
            await self._mover.detach(intent, plan, within=within)
            return Begun()
        based = msgspec.structs.replace(valid.value, read_at=read_at)
        return await self._evict(intent, reserved.value.entry, based, taken_over=False)

    async def _take_over(self, intent: EvictionIntent, entry: LedgerEntry) -> Finish | Retry:
        """Continues for a binder that has crashed or is slow after its reservation. Its POST may have happened, or may
        still."""
        with suppress(UnreadableObject):  # the validation refuses it, and returns the reservation
            pod = await find(self._kube, PODS, intent.pod, intent.namespace)
            if has_left(pod, intent.pod_uid):
                return pod_left(dry_run=entry.dry_run)
        valid = await self._validate_reserved(intent, entry, taken_over=True)
        if not isinstance(valid, Proceed):
            return valid
        current = await self._ledger.take_over(intent)
        if current is None:
            return retry(intent, "the binder that reserved it has returned its reservation")
        if current.outcome is not None:
            return recorded(current)
        return await self._evict(intent, current, valid.value, taken_over=True)

    async def _evict(
        self, intent: EvictionIntent, entry: LedgerEntry, valid: ValidIntent, *, taken_over: bool
    ) -> Finish | Retry:
        """Sends the POST if all reads are at most `MAX_READ_AGE` old. Otherwise all of them are repeated first."""
        for _ in range(_VALIDATIONS):
            if self._is_recent(valid):
                break
            again = await self._validate_reserved(intent, entry, taken_over=taken_over)
            if not isinstance(again, Proceed):
                return again
            valid = again.value
        not_posted = _not_posted(taken_over)
        lifetime = entry.expires_at - self._ledger.latest
        if lifetime <= 0:
            detail = "expired while it was reserved"
            return Finish(outcome=Outcome.EXPIRED, detail=detail, reservation=not_posted)
        freshness = self._validation.remaining_freshness(intent)
        if freshness <= 0:
            detail = "its oldest sample became too old while it was reserved (load.freshness)"
            return Finish(outcome=Outcome.REJECTED_STALE, detail=detail, reservation=not_posted)
        # Another binder that received the intent too may have refused it, which the ledger does not show.
        if (refusal := self._published.get(intent.id)) is not None:
            return msgspec.structs.replace(published(refusal), recorded=False, reservation=not_posted)
        if self._is_recent(valid):
            return await self._client.evict(
                intent,
                valid.eviction.workload,
                within=min(valid.read_at + MAX_READ_AGE - self._clock.monotonic(), freshness),
                timeout=lifetime,
                dry_run=entry.dry_run or self._dry_run,
                taken_over=taken_over,
            )
        return retry(intent, _SLOW_READS, reservation=not_posted)

    def _is_recent(self, valid: ValidIntent) -> bool:
        return self._clock.monotonic() - valid.read_at < MAX_READ_AGE

    async def _validate_reserved(
        self, intent: EvictionIntent, entry: LedgerEntry, *, taken_over: bool
    ) -> Proceed[ValidIntent] | Finish | Retry:
        """Decides about an intent with a reservation as if it were a new one: with new reads only, limits included."""
        result = await self._decide_again(intent)
        if isinstance(result, Proceed) or (isinstance(result, Finish) and result.recorded):
            return result
        if taken_over and isinstance(result, Finish) and result.outcome in (Outcome.ALREADY_GONE, Outcome.UID_CHANGED):
            return pod_left(dry_run=entry.dry_run)
        return msgspec.structs.replace(result, reservation=_not_posted(taken_over))

    async def _decide_again(self, intent: EvictionIntent) -> Proceed[ValidIntent] | Finish | Retry:
        read_at = self._clock.monotonic()
        ledger = await self._ledger.read()
        if isinstance(ledger, LedgerClosed):
            return Finish(outcome=Outcome.PAUSED, detail=ledger.why)
        if ledger.paused:
            return paused(ledger.pause_reason)
        valid = await self._validation.validate(intent, ledger, read_at)
        if not isinstance(valid, Proceed):
            return valid
        if valid.value.surge is not None:
            return retry(intent, "its pod can now be moved without a gap only, and was reserved for an eviction")
        reservation = ledger.entry(intent.id)
        if reservation is None:
            return Finish(outcome=Outcome.REJECTED_STALE, detail="its reservation is no longer in the ledger")
        if reservation.outcome is not None:
            return recorded(reservation)
        return await self._ledger.check_limits(intent, valid.value.eviction, ledger) or valid

    async def _record(self, intent: EvictionIntent, finish: Finish) -> Finish:
        """Writes the outcome of a reservation to the ledger before it is published: a redelivery then has the same one.

        A refusal without a reservation is only published.
        """
        if finish.recorded:
            return finish
        entry = await self._ledger.settle(intent, finish)
        if entry is None or entry.outcome is None:
            return finish
        return msgspec.structs.replace(
            recorded(entry), owner_must_act=finish.owner_must_act, without_gap=finish.without_gap
        )

    async def _report(self, intent: EvictionIntent, finish: Finish, *, final: bool) -> None:
        """Publishes the outcome and writes the Events. Raises BusError; at the last delivery, only if a second attempt
        fails."""
        try:
            await self._reporter.publish(intent, finish)
        except BusError:
            if not final:
                raise
            await self._reporter.publish(intent, finish)
        await self._reporter.write_events(intent, finish)


def _not_posted(taken_over: bool) -> Reservation:
    """What becomes of the reservation if this binder sends no POST; another one may have sent one."""
    return "kept" if taken_over else "returned"
