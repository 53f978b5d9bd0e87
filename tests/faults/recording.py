"""Records the messages on the bus and the actions of the harness; the audit log completes the history."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.process.clock import Clock
from equipoise.testbed import audit
from equipoise.testbed.processes.configuration import KUBELET
from faults.cluster_setup import BAND_AMOUNTS, BAND_POD, BATCHES, OWN, workload_of
from faults.history import (
    HARNESS,
    AcknowledgedEvent,
    Alarm,
    BandPod,
    Convergence,
    ExtenderExchange,
    Finding,
    Forbidden,
    History,
    Leak,
    NodeSample,
    PodBatch,
    PodChange,
    Post,
    ProcessSample,
    PublishedIntent,
    PublishedOutcome,
    ReclaimerWrite,
    RefusedPod,
    ScheduledPod,
    ScoreResponse,
    Span,
    Stop,
)
from faults.invariants.reclaimed import NAMES
from faults.recording_of_moves import MovesRecorder

OWN_ACCOUNTS = f"system:serviceaccount:{OWN}:"


class _Timed(Protocol):
    @property
    def at(self) -> float: ...


T = TypeVar("T", bound=_Timed)


class Recorder:
    """Records while its bus is open."""

    def __init__(self, clock: Clock, audit_log: Path) -> None:
        self._clock = clock
        self._audit_log = audit_log
        self.sent: dict[str, float] = {}
        """When eviction requests were sent, by `Audit-ID`; those without that time: when they arrived at the proxy."""
        self.storing = True
        """False: nats-server stores nothing, so an outcome that it forwards is not published yet."""

        self.intents: dict[str, PublishedIntent] = {}
        self.outcomes: list[PublishedOutcome] = []
        self.settled: dict[str, float] = {}
        """By intent id, the time of its first outcome."""

        self.seen = 0
        self.first_outcomes: Counter[Outcome] = Counter()
        """The number of intents, and of their first outcomes, since the beginning: `forget` does not change them."""

        self.kept: Counter[str] = Counter()
        """Outcomes in the stream at the last count."""

        self.measured: list[NodeSample] = []
        self.scores: list[ScoreResponse] = []
        self.paused: list[Span] = []
        self.uncovered: list[Span] = []
        self.uncovered_for_evictions: list[Span] = []
        self.new_pods_refused: list[Span] = []
        self.forbidden: list[Forbidden] = []
        self.stops: list[Stop] = []
        self.dry_runs: list[Span] = []
        self.events: list[AcknowledgedEvent] = []
        self.alarms: list[Alarm] = []
        self.processes: list[ProcessSample] = []
        self.convergences: list[Convergence] = []
        self.leaks: list[Leak] = []
        self.findings: list[Finding] = []
        self.moves = MovesRecorder(clock)
        self.placements: dict[str, NodePlacement] = {}
        """By node, the latest message."""

        self.reclaimed: dict[str, ReclaimedNode] = {}
        """By node, the latest message."""

        self.exchanges: list[ExtenderExchange] = []
        self.batches: list[PodBatch] = []
        """Without times and nodes, which are in the audit log."""

    @contextmanager
    def forbidding(self, why: str, **which: str) -> Iterator[None]:
        """While entered, the cluster forbids these evictions: `which` are fields of `Forbidden`."""
        begin = self._clock.now()
        try:
            yield
        finally:
            self.forbidden.append(Forbidden(begin=begin, end=self._clock.now(), why=why, **which))

    async def subscribe(self, bus: Bus) -> None:
        await bus.subscribe("equipoise.eviction.intent.*.*", EvictionIntent, self.on_intent)
        await bus.subscribe("equipoise.eviction.outcome.*.*", EvictionOutcome, self.on_outcome)
        await bus.subscribe("equipoise.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await bus.subscribe("equipoise.placement.node.*", NodePlacement, self.on_node_placement)
        await bus.subscribe("equipoise.reclaim.node.*", ReclaimedNode, self.on_reclaimed_node)

    async def on_intent(self, delivery: Delivery[EvictionIntent]) -> None:
        intent = delivery.message
        # The harness records its own intents itself: a core subscription also receives those that the stream refused.
        if intent.strategy != HARNESS and intent.id not in self.intents:
            # It was published before it was received here, and a binder may be faster than the harness.
            self.intents[intent.id] = PublishedIntent(at=min(self._clock.now(), intent.decided_at), intent=intent)
            self.seen += 1

    async def on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        self.record_outcome(delivery.message.intent_id, delivery.message.outcome)

    def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        now = self._clock.now()
        if intent_id in self.intents and intent_id not in self.settled:
            self.first_outcomes[outcome] += 1
        self.settled.setdefault(intent_id, now)
        self.outcomes.append(PublishedOutcome(at=now, intent_id=intent_id, outcome=outcome))

    def record_missed(self, intent_id: str, outcome: Outcome) -> None:
        """One of the stream; the harness may have been without a connection when it was published."""
        if intent_id in self.intents and intent_id not in self.settled:
            self.record_outcome(intent_id, outcome)

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        message = delivery.message
        self.measured.append(
            NodeSample(
                at=self._clock.now(),
                node=message.node,
                epoch=message.epoch,
                sequence=message.sequence,
                sampled_at=message.sampled_at,
            )
        )

    async def on_node_placement(self, delivery: Delivery[NodePlacement]) -> None:
        self.placements[delivery.message.node] = delivery.message

    async def on_reclaimed_node(self, delivery: Delivery[ReclaimedNode]) -> None:
        self.reclaimed[delivery.message.node] = delivery.message

    def record_intent(self, intent: EvictionIntent, *, epoch_held: bool) -> None:
        """Before it is published, so that no POST can be earlier."""
        self.intents[intent.id] = PublishedIntent(at=self._clock.now(), intent=intent, epoch_held=epoch_held)
        self.seen += 1

    def remove_intent(self, intent_id: str) -> None:
        """The stream did not accept it."""
        del self.intents[intent_id]
        self.seen -= 1

    def expect_no_outcome(self, intent_id: str) -> None:
        """Whether the stream accepted or kept it is unknown."""
        self.intents[intent_id] = msgspec.structs.replace(self.intents[intent_id], outcome_expected=False)

    def streams_emptied(self) -> None:
        """Pending intents may never have an outcome, and what was stored before may be lost."""
        for intent_id in self.pending():
            self.expect_no_outcome(intent_id)
        self.outcomes_refused()
        self.events = [msgspec.structs.replace(event, loss_expected=True) for event in self.events]

    def outcomes_refused(self) -> None:
        """The stream may have refused outcomes that were received here; then another one follows."""
        for intent_id in self.settled.keys() & self.intents.keys():
            self.intents[intent_id] = msgspec.structs.replace(self.intents[intent_id], outcome_lost=True)

    def record_event(self, event_id: str) -> None:
        """A stream has acknowledged it."""
        self.events.append(AcknowledgedEvent(at=self._clock.now(), event_id=event_id))

    def stored_events(self, found: Collection[str]) -> None:
        """Which events the stream has now."""
        self.events = [msgspec.structs.replace(event, stored=event.event_id in found) for event in self.events]

    def pending(self) -> list[str]:
        """Intents without an outcome that must get one."""
        return [
            intent_id
            for intent_id, published in self.intents.items()
            if published.outcome_expected and intent_id not in self.settled and not self._refused(published)
        ]

    def _refused(self, published: PublishedIntent) -> bool:
        """The stream refuses an intent for a pod that has a pending one."""
        if published.intent.strategy == HARNESS:
            return False
        waits_until = 0.0
        for other in self.intents.values():
            if (other.intent.namespace, other.intent.pod) != (published.intent.namespace, published.intent.pod):
                continue
            refused = other.at < waits_until
            if other.intent.id == published.intent.id:
                return refused
            if not refused:
                waits_until = self.settled.get(other.intent.id, math.inf)
        return False

    def count(self, outcome: Outcome) -> int:
        """Intents with this outcome so far."""
        return len({each.intent_id for each in self.outcomes if each.outcome is outcome})

    def forget(self, before: float) -> None:
        """Everything that was published before; a long run would grow without bound."""
        old = {intent_id for intent_id, published in self.intents.items() if published.at < before}
        for intent_id in old:
            del self.intents[intent_id]
            self.settled.pop(intent_id, None)
        self.outcomes = [outcome for outcome in self.outcomes if outcome.intent_id in self.settled]
        self.measured = _since(before, self.measured)
        self.scores = _since(before, self.scores)
        self.exchanges = _since(before, self.exchanges)

    def scheduled(self, batch: PodBatch) -> PodBatch:
        """The batch with the times and nodes of its pods."""
        created = audit.created_pods(self._audit_log)
        bound = {(binding.namespace, binding.pod): binding for binding in audit.bindings(self._audit_log)}

        def found(pod: ScheduledPod) -> ScheduledPod:
            name = (BATCHES, pod.pod)
            binding = bound.get(name)
            return ScheduledPod(
                pod=pod.pod,
                created_at=created[name].timestamp(),
                bound_at=None if binding is None else binding.time.timestamp(),
                node="" if binding is None else binding.node,
            )

        return msgspec.structs.replace(
            batch, pods=tuple(map(found, batch.pods)), baseline=tuple(map(found, batch.baseline))
        )

    def history(self, since: float) -> History:
        outcome_expected = set(self.pending()) | set(self.settled)
        pods = [
            PodChange(
                at=binding.time.timestamp(),
                what="bound",
                namespace=binding.namespace,
                pod=binding.pod,
                workload=workload_of(binding.pod),
                node=binding.node,
            )
            for binding in audit.bindings(self._audit_log)
        ]
        ready: set[tuple[str, str]] = set()
        for write in audit.pod_writes(self._audit_log):
            name = (write.namespace, write.pod)
            if write.verb == "delete":
                ready.discard(name)
            elif write.subresource != "status" or write.user != KUBELET or name in ready:
                continue
            else:
                ready.add(name)
            pods.append(
                PodChange(
                    at=write.time.timestamp(),
                    what="deleted" if write.verb == "delete" else "ready",
                    namespace=write.namespace,
                    pod=write.pod,
                    workload=workload_of(write.pod),
                    by_equipoise=write.user.startswith(OWN_ACCOUNTS),
                )
            )
        return History(
            since=since,
            posts=tuple(_post(eviction, self.sent.get(eviction.id)) for eviction in audit.evictions(self._audit_log)),
            pods=tuple(sorted(pods, key=lambda change: change.at)),
            intents=tuple(
                msgspec.structs.replace(
                    published, outcome_expected=published.outcome_expected and published.intent.id in outcome_expected
                )
                for published in self.intents.values()
            ),
            outcomes=tuple(self.outcomes),
            kept=dict(self.kept),
            measured=tuple(_since(since, self.measured)),
            scores=tuple(self.scores),
            paused=tuple(self.paused),
            uncovered=tuple(self.uncovered),
            uncovered_for_evictions=tuple(self.uncovered_for_evictions),
            new_pods_refused=tuple(self.new_pods_refused),
            forbidden=tuple(self.forbidden),
            stops=tuple(self.stops),
            dry_runs=tuple(self.dry_runs),
            events=tuple(self.events),
            alarms=tuple(self.alarms),
            processes=tuple(_since(since, self.processes)),
            convergences=tuple(_since(since, self.convergences)),
            leaks=tuple(_since(since, self.leaks)),
            findings=tuple(_since(since, self.findings)),
            exchanges=tuple(_since(since, self.exchanges)),
            batches=tuple(map(self.scheduled, _since(since, self.batches))),
            reclaimer_writes=tuple(
                _reclaimer_write(write) for write in audit.writes_of(self._audit_log, f"{OWN_ACCOUNTS}reclaimer-")
            ),
            band_pods=tuple(self._band_pods()),
            refused_pods=tuple(
                RefusedPod(at=write.time.timestamp(), pod=write.name, code=write.code)
                for write in audit.refused_pods(self._audit_log)
            ),
            moves=self.moves.history(self._audit_log, self.sent),
        )

    def _band_pods(self) -> Iterator[BandPod]:
        """Those of the harness, whose amounts are known."""
        ended = {
            (write.namespace, write.pod): write.time.timestamp()
            for write in audit.pod_writes(self._audit_log)
            if write.verb == "delete"
        }
        for binding in audit.bindings(self._audit_log):
            if binding.namespace == BATCHES and workload_of(binding.pod) == BAND_POD:
                yield BandPod(
                    at=binding.time.timestamp(),
                    pod=binding.pod,
                    node=binding.node,
                    amounts=BAND_AMOUNTS,
                    ended_at=ended.get((binding.namespace, binding.pod)),
                )


def _since(begin: float, found: Iterable[T]) -> list[T]:
    return [each for each in found if each.at >= begin]


def _reclaimer_write(write: audit.LoggedWrite) -> ReclaimerWrite:
    status = write.body.get("status") or {}
    amounts = {
        name: None if text is None else parse_quantity(text)
        for kind in ("capacity", "allocatable")
        for name, text in (status.get(kind) or {}).items()
    }
    others = [
        *(name for name in write.body if name not in ("metadata", "status")),
        *(name for name in write.body.get("metadata") or {} if name != "uid"),
        *(name for name in status if name not in ("capacity", "allocatable")),
        *(name for name in amounts if name not in NAMES),
    ]
    return ReclaimerWrite(
        at=write.time.timestamp(),
        program=write.user.removeprefix(OWN_ACCOUNTS),
        verb=write.verb,
        resource=write.resource,
        node=write.name,
        amounts={name: amount for name, amount in amounts.items() if name in NAMES},
        others=tuple(others),
        executed=200 <= write.code < 300,
    )


def _post(eviction: audit.LoggedEviction, sent: float | None) -> Post:
    return Post(
        at=eviction.time.timestamp(),
        sent=sent,
        namespace=eviction.namespace,
        pod=eviction.pod,
        workload=workload_of(eviction.pod),
        uid=eviction.uid,
        dry_run=eviction.dry_run,
        code=eviction.code,
    )
