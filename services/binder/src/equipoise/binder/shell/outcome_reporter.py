"""Reports the outcome of an intent, on the bus and as Events for people, and the end of a campaign as an Event."""

from collections.abc import Callable

import structlog

from equipoise.binder.decisions.event import campaign_event, intent_event, pod_reference, workload_reference
from equipoise.binder.decisions.result import Finish
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.live_reads import Unreadable, read_workload
from equipoise.binder.shell.metrics import BinderMetrics
from equipoise.binder.state.campaign import Campaign
from equipoise.binder.state.published_outcomes import PublishedOutcomes
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import ObjectReference
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.kubernetes.client import EVENTS, Conflict, KubeError
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()


class OutcomeReporter:
    def __init__(
        self,
        runtime: Runtime[BinderSettings],
        published: PublishedOutcomes,
        metrics: BinderMetrics,
        *,
        now: Callable[[], float],
    ) -> None:
        """`now` returns the API server's time."""
        self._published = published
        self._bus = runtime.bus
        self._kube = runtime.kube
        self._namespace = runtime.configuration.shared.kubernetes.namespace
        self._now = now
        self._identity = runtime.identity
        self._dry_runs = not runtime.own.evict
        self._metrics = metrics

    async def publish(self, intent: EvictionIntent, finish: Finish) -> None:
        """Publish the outcome of an intent once: the bus drops a second message with the same id. Raises BusError."""
        settled_at = self._now() if finish.settled_at is None else finish.settled_at
        message = finish.message(intent, settled_at, dry_runs=self._dry_runs)
        subject = subjects.eviction_outcome(intent.namespace, intent.pod)
        await self._bus.publish(subject, message, message_id=intent.id)
        self._published.add(message)
        self._metrics.on_outcome(finish.outcome, finish.limit)
        log.info(
            "intent settled",
            outcome=finish.outcome.value,
            intent=intent.id,
            pod=intent.pod_name,
            node=intent.node,
            target=intent.target,
            reason=intent.reason,
            detail=finish.detail,
            campaign=finish.campaign,
        )

    async def write_events(self, intent: EvictionIntent, finish: Finish) -> None:
        """Write Events about an eviction, for its pod and workload.

        A refusal that the owner of the workload must resolve is written for the workload. For other outcomes, no Event
        is written. An Event that cannot be written is only logged.
        """
        evicted = finish.outcome == Outcome.EVICTED
        if not evicted and not finish.owner_must_act:
            return
        refusal = "" if evicted else finish.detail
        pod = pod_reference(intent) if evicted else None
        workload = await self._reference(finish.workload or intent.workload)
        for regarding in (pod, workload):
            if regarding is not None:
                event = intent_event(
                    intent, self._now(), self._identity, regarding, refusal=refusal, campaign=finish.campaign
                )
                await self._write(event)

    async def write_campaign_end(self, campaign: Campaign) -> None:
        """Write the Event that a campaign has ended, unless another binder has. One that cannot be written is only
        logged."""
        await self._write(campaign_event(campaign, self._namespace, self._now(), self._identity))

    async def _reference(self, workload: Workload | None) -> ObjectReference | None:
        """The reference to a workload, with the UID, without which `kubectl describe` does not find the Event."""
        if workload is None:
            return None
        try:
            return workload_reference(await read_workload(self._kube, workload))
        except (KubeError, Unreadable) as error:
            log.warning("event not written", workload=str(workload), error=str(error))
            return None

    async def _write(self, event: Event) -> None:
        try:
            await self._kube.create(EVENTS, event)
        except Conflict:
            pass  # it was written at an earlier delivery of the intent, or by another binder
        except KubeError as error:
            log.warning("event not written", name=event.metadata.name, error=str(error))
