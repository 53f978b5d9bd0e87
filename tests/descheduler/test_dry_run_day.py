"""A whole day of dry runs, beside the same day with real evictions."""

import math
from collections import Counter

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from descheduler.clusters import THRESHOLDS, WINDOWS, a_node, a_pod
from descheduler.test_tracker import an_outcome

from equipoise.contracts.fit import FitPod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.evaluation.messages import intent_of
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.abnormal_counts import NodeObservation
from equipoise.descheduler.state.cluster import ClusterState, IntentLimits, MovablePod
from equipoise.descheduler.state.cool_downs import resting
from equipoise.descheduler.state.dry_run_moves import PodLocation, applied
from equipoise.descheduler.state.pending_moves import ReplacementCandidate
from equipoise.descheduler.state.tracker import Tracker

INTERVAL = 120.0
EVALUATIONS = 720
EPOCH = LeaseEpoch(lease_uid="lease", transitions=0, holder="descheduler-1")
LIMITS = IntentLimits(per_evaluation=4, per_node=2, per_workload=1)


class Pod(msgspec.Struct, kw_only=True):
    """Really there; `born` as, before anything was evicted."""

    born: str
    name: str
    node: str
    workload: Workload


class Day:
    """Six nodes; on three of them every pod grows, each node's at another time of the day."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._memory = Tracker(DeschedulerSettings().tracker)
        self.proposed: list[tuple[float, str, str, str]] = []
        """When, which pod (as it was born), from where, to where."""

        self._pods = [
            Pod(born=f"p{node}-{place}", name=f"p{node}-{place}", node=f"node-{node}", workload=a_workload(f"w{place}"))
            for node in range(6)
            for place in range(8)
        ]

    def _cores(self, pod: Pod, hour: float) -> float:
        """Pods born on the nodes 0, 1 and 2 grow by a half, and more, at 4, 10 and 16 o'clock."""
        node, place = (int(number) for number in pod.born[1:].split("-"))
        if node > 2:
            return 0.15
        return 0.55 + 0.04 * place + (0.35 if hour >= 4 + 6 * node else 0.0) + 0.01 * math.sin(hour)

    def _movable(self, pod: Pod, now: float) -> MovablePod:
        hour = (now - NOW) / 3_600
        fit = FitPod(uid=f"uid-{pod.name}", namespace="shop", name=pod.name, requests={"cpu": 0.1, "memory": GIB / 8})
        rest = resting(
            self._memory.cool_downs,
            uid=f"uid-{pod.name}",
            namespace="shop",
            workload=pod.workload,
            node=pod.node,
            now=now,
        )
        cpu = self._cores(pod, hour)
        return a_pod(pod.name, cpu=cpu, workload=pod.workload, fit=fit, protection=rest)

    def _cluster(self, now: float) -> ClusterState:
        nodes = [
            a_node(
                f"node-{number}",
                [self._movable(pod, now) for pod in self._pods if pod.node == f"node-{number}"],
                sampled_at=dict.fromkeys(WINDOWS, now),
            )
            for number in range(6)
        ]
        return ClusterState(
            now=now,
            nodes=applied(nodes, self._memory.assumptions),
            thresholds=THRESHOLDS,
            windows=WINDOWS,
            limits=LIMITS,
        )

    def evaluate(self, now: float) -> None:
        memory, strategy = self._memory, LowNodeLoad()
        memory.tidied(
            lambda _: [
                ReplacementCandidate(uid=f"uid-{pod.name}", workload=pod.workload, node=pod.node, created_at=now)
                for pod in self._pods
            ],
            now,
        )
        places = {f"uid-{pod.name}": PodLocation(node=pod.node, workload=pod.workload) for pod in self._pods}
        memory.assume(places, {pod.node for pod in self._pods} | {f"node-{number}" for number in range(6)}, now)
        cluster = self._cluster(now)
        observations_of = [
            NodeObservation(node=each.node, abnormal=each.state == "hot", sampled_at=now) for each in strategy.classify(cluster)
        ]
        memory.count("low_node_load", observations_of, now)
        for move in strategy.plan(cluster, memory.abnormal("low_node_load")).moves:
            intent = intent_of(move, strategy="low_node_load", now=now, life=180, epoch=EPOCH)
            known = [f"uid-{pod.name}" for pod in self._pods if pod.workload == intent.workload]
            memory.proposed(intent, known=known, fit=move.pod.fit)
            (pod,) = [pod for pod in self._pods if pod.name == intent.pod]
            self.proposed.append(((now - NOW) / 3_600, pod.born, intent.node, intent.target))
            memory.settled(an_outcome(self._outcome, intent, settled_at=now), now)
            if self._outcome is Outcome.EVICTED:
                pod.name, pod.node = f"{pod.name}-r", intent.target

    def run(self) -> "Day":
        for number in range(EVALUATIONS):
            self.evaluate(NOW + number * INTERVAL)
        return self

    def load(self, node: str) -> Resources:
        (found,) = [each for each in self._cluster(NOW + EVALUATIONS * INTERVAL).nodes if each.name == node]
        return found.load("5m")


@pytest.fixture(scope="module")
def dry() -> Day:
    return Day(Outcome.DRY_RUN).run()


@pytest.fixture(scope="module")
def real() -> Day:
    return Day(Outcome.EVICTED).run()


def test_a_dry_run_proposes_each_pod_once_a_day(dry: Day) -> None:
    """Three nodes became hot, at their hours; what was proposed is not proposed again."""
    proposals = Counter(pod for _, pod, _, _ in dry.proposed)

    assert len(dry.proposed) >= 6
    assert {source for _, _, source, _ in dry.proposed} == {"node-0", "node-1", "node-2"}
    assert set(proposals.values()) == {1}


def test_a_dry_run_says_what_real_evictions_would_have_come_to(dry: Day, real: Day) -> None:
    """The same pods at the same times to the same targets, where each replacement follows its intent."""
    assert dry.proposed == real.proposed
    assert [dry.load(f"node-{number}").cpu for number in range(6)] == pytest.approx(
        [real.load(f"node-{number}").cpu for number in range(6)]
    )
