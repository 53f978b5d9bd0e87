"""Writes down what the bus says and what the harness does; with the audit log it becomes a history."""

import math
from collections import Counter
from pathlib import Path

import msgspec

from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.bus import Bus, Delivery
from equipoise.runtime.process.clock import Clock
from equipoise.testbed import audit
from equipoise.testbed.processes.configuration import KUBELET
from faults.fleet import OWN, workload_of
from faults.history import HARNESS, Answered, Heard, History, Measured, PodChange, Post, Said, Span

OURS = f"system:serviceaccount:{OWN}:"


class Recorder:
    """Listens for as long as its bus is open."""

    def __init__(self, clock: Clock, audit_log: Path) -> None:
        self._clock = clock
        self._audit_log = audit_log
        self.intents: dict[str, Said] = {}
        self.outcomes: list[Heard] = []
        self.settled: dict[str, float] = {}
        """By id of the intent when its first outcome was heard."""

        self.kept: Counter[str] = Counter()
        """Outcomes in the stream, as counted by whoever read it last."""

        self.measured: list[Measured] = []
        self.answers: list[Answered] = []
        self.paused: list[Span] = []
        self.blind: list[Span] = []
        self.without_new_pods: list[Span] = []
        self.rehearsing: list[Span] = []

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe("equipoise.eviction.intent.*.*", EvictionIntent, self.on_intent)
        await bus.subscribe("equipoise.eviction.outcome.*.*", EvictionOutcome, self.on_outcome)
        await bus.subscribe("equipoise.utilization.node.*", NodeUtilization, self.on_node_utilization)

    async def on_intent(self, delivery: Delivery[EvictionIntent]) -> None:
        intent = delivery.message
        # The harness knows its own, and which of them the stream refused: here they are heard in any case.
        if intent.strategy != HARNESS and intent.id not in self.intents:
            # It was said before it was heard here, and the harness is slower than a binder.
            self.intents[intent.id] = Said(at=min(self._clock.now(), intent.decided_at), intent=intent)

    async def on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self.settled.setdefault(outcome.intent_id, self._clock.now())
        self.outcomes.append(Heard(at=self._clock.now(), intent_id=outcome.intent_id, outcome=outcome.outcome))

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        message = delivery.message
        self.measured.append(
            Measured(
                at=self._clock.now(),
                node=message.node,
                epoch=message.epoch,
                sequence=message.sequence,
                sampled_at=message.sampled_at,
            )
        )

    def say(self, intent: EvictionIntent, *, epoch_held: bool) -> None:
        """Before it is published, so that no POST can be earlier."""
        self.intents[intent.id] = Said(at=self._clock.now(), intent=intent, epoch_held=epoch_held)

    def unsay(self, intent_id: str) -> None:
        """The stream did not take it."""
        del self.intents[intent_id]

    def not_answered_for(self, intent_id: str) -> None:
        """Nobody knows whether the stream took it, or keeps it."""
        self.intents[intent_id] = msgspec.structs.replace(self.intents[intent_id], answered_for=False)

    def lost(self) -> None:
        """The streams were emptied: what was under way may never be answered."""
        for intent_id in self.open():
            self.not_answered_for(intent_id)

    def open(self) -> list[str]:
        """Intents without an outcome that must get one."""
        return [
            intent_id
            for intent_id, said in self.intents.items()
            if said.answered_for and intent_id not in self.settled and not self._refused(said)
        ]

    def _refused(self, said: Said) -> bool:
        """A descheduler's intent for a pod whose last one still waited: the stream refuses it."""
        if said.intent.strategy == HARNESS:
            return False
        waits_until = 0.0
        for other in self.intents.values():
            if (other.intent.namespace, other.intent.pod) != (said.intent.namespace, said.intent.pod):
                continue
            refused = other.at < waits_until
            if other.intent.id == said.intent.id:
                return refused
            if not refused:
                waits_until = self.settled.get(other.intent.id, math.inf)
        return False

    def count(self, outcome: Outcome) -> int:
        """Intents that came to that end so far."""
        return len({heard.intent_id for heard in self.outcomes if heard.outcome is outcome})

    def history(self, since: float) -> History:
        answered_for = set(self.open()) | set(self.settled)
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
                    by_us=write.user.startswith(OURS),
                )
            )
        return History(
            since=since,
            posts=tuple(_post(eviction) for eviction in audit.evictions(self._audit_log)),
            pods=tuple(sorted(pods, key=lambda change: change.at)),
            intents=tuple(
                msgspec.structs.replace(said, answered_for=said.answered_for and said.intent.id in answered_for)
                for said in self.intents.values()
            ),
            outcomes=tuple(self.outcomes),
            kept=dict(self.kept),
            measured=tuple(measured for measured in self.measured if measured.at >= since),
            answers=tuple(self.answers),
            paused=tuple(self.paused),
            blind=tuple(self.blind),
            without_new_pods=tuple(self.without_new_pods),
            rehearsing=tuple(self.rehearsing),
        )


def _post(eviction: audit.Eviction) -> Post:
    return Post(
        at=eviction.time.timestamp(),
        namespace=eviction.namespace,
        pod=eviction.pod,
        workload=workload_of(eviction.pod),
        uid=eviction.uid,
        dry_run=eviction.dry_run,
        code=eviction.code,
    )
