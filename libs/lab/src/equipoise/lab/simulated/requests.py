"""The requests of the binder to the API server in a replay, and where the replacements of the moved pods run."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from equipoise.binder.decisions.result import Finish
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.trace import TraceNode
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.lab.simulated.cluster import SimulatedCluster, SimulatedPod


@dataclass
class SimulatedRequests:
    """Executes each request at once. See `MoveRequests`."""

    kubernetes: SimulatedCluster
    scheduling: SimulatedScheduler
    events: EventQueue
    _replacements: list[tuple[SimulatedPod, str]] = field(default_factory=list, init=False)
    """The expected replacements of moved pods, each with the node where it was expected."""

    def evict(self, intent: EvictionIntent) -> Finish | None:
        """Evicts the pod. At the end of a move without a gap, the replacement exists: its fit is not checked again."""
        pod = self.kubernetes.pods[intent.pod_uid]
        refused = None if pod.known.detached else self._without_capacity(pod)
        refused = refused or self.kubernetes.refused_eviction(pod)
        if refused is None:
            self._expect(self.kubernetes.evict(pod, self.events.now), intent)
        return refused

    def detach(self, intent: EvictionIntent) -> Finish | None:
        pod = self.kubernetes.pods[intent.pod_uid]
        refused = self._without_capacity(pod)
        if refused is None:
            self._expect(self.kubernetes.detach(pod, self.events.now), intent)
        return refused

    def restore(self, intent: EvictionIntent) -> None:
        self.kubernetes.restore(self.kubernetes.pods[intent.pod_uid], self.events.now)

    def landed(self, nodes: Sequence[TraceNode]) -> float | None:
        """Share (0..1) of placed replacements that run on the target of their move; None when none was placed."""
        landed = [nodes[pod.node].name == target for pod, target in self._replacements if pod.node >= 0]
        return round(sum(landed) / len(landed), 4) if landed else None

    def _without_capacity(self, pod: SimulatedPod) -> Finish | None:
        if len(self.scheduling.feasible(pod.scheduled)):
            return None
        return Finish(outcome=Outcome.REJECTED_FIT, detail="no node has capacity for the replacement")

    def _expect(self, replacement: SimulatedPod | None, intent: EvictionIntent) -> None:
        if replacement is not None:
            self._replacements.append((replacement, intent.target))
