"""One message of every subject, as the services say them: one pod's way off a hot node."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import CHANNELS, Channel
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.advice import AdvisedNode, ClusterReview, PlacementAdvice
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.descheduling import DescheduleDecision, NodeClassification, ProposedMove
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.health import DRY_RUN, Heartbeat
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import NodeScore, ScoreDecision
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization

Said = tuple[str, msgspec.Struct]
"""A subject and what was said on it."""

GIB = 2.0**30
NOW = 1_800_000_000.0
"""15 January 2027, 08:00 UTC."""

WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
POD, POD_UID = "web-7d4b9c-x2x7l", "0c5ba2b0-6f1e-4b5e-9a53-3d7a1d1f0001"
HOT, IDLE = "node-1.example.com", "node-2.example.com"
EPOCH = LeaseEpoch(lease_uid="5f0d7a36-2f6a-4f0b-8f0e-0d1c2b3a4958", transitions=3, holder="descheduler-5c9f-a1b2c3")
INTENT = "5e1f9d0c"
REASON = "node is overutilized, cpu usage(91.00%)>threshold(65.00%)"
RELIEF = Resources(cpu=1.2, memory=1.5 * GIB)
DEMAND = PodDemand(
    namespace="shop", name=POD, uid=POD_UID, workload=WEB, requests=Resources(cpu=0.5, memory=GIB)
)  # fmt: skip


def _window(cpu: float, memory: float) -> WindowUsage:
    return WindowUsage(sampled_at=NOW - 6, mean=Resources(cpu=cpu, memory=memory * GIB))


def _node() -> Said:
    return subjects.node_utilization(HOT), NodeUtilization(
        node=HOT, uid="7b1c", base=Resources(cpu=8, memory=32 * GIB), sampled_at=NOW - 6, queried_at=NOW,
        windows={"5m": _window(7.28, 18), "15m": _window(7.1, 18)},
        system=Resources(cpu=0.3, memory=GIB), pods={POD_UID: RELIEF},
        epoch=1_799_990_000_000, sequence=42,
    )  # fmt: skip


def _workload() -> Said:
    return subjects.workload_utilization(WEB), WorkloadUtilization(
        workload=WEB, replicas=3, sampled_at=NOW - 6, queried_at=NOW, windows={"5m": _window(1.1, 1.5)},
        profile={"cpu": [0.4] * 8 + [1.1] * 2 + [None] * 14, "memory": [1.5 * GIB] * 10 + [None] * 14},
        epoch=1_799_990_000_000, sequence=42,
    )  # fmt: skip


def _cycle() -> Said:
    return subjects.utilization_cycle("all"), UtilizationCycle(
        shard="all", cycle=42, expected=40, fresh=39, queried_at=NOW, skew=0.02,
        missing={"node-17.example.com": "no sample within 180 s"}, reasons={"no sample": 1},
        epoch=1_799_990_000_000, sequence=42,
    )  # fmt: skip


def _placement() -> Said:
    pod = PlacedPod(
        uid=POD_UID, namespace="shop", name=POD, workload=WEB, placed_at=NOW - 7_200, running_since=NOW - 7_195,
        qos="Burstable", requests=DEMAND.requests, limits=Resources(cpu=2),
    )  # fmt: skip
    return subjects.node_placement(HOT), NodePlacement(
        node=HOT, uid="7b1c", labels={"topology.kubernetes.io/zone": "a"}, ready=True, ready_since=NOW - 90_000,
        created_at=NOW - 90_100, allocatable=Resources(cpu=8, memory=32 * GIB),
        capacity=Resources(cpu=8, memory=32 * GIB), pods=[pod], epoch=1_799_990_000_000, sequence=41,
    )  # fmt: skip


def _intent() -> Said:
    return subjects.eviction_intent("shop", POD), EvictionIntent(
        id=INTENT, pod_uid=POD_UID, namespace="shop", pod=POD, node=HOT, workload=WEB, strategy="low_node_load",
        reason=REASON, sampled_at=NOW - 6, decided_at=NOW, expires_at=NOW + 180, expected_reduction=RELIEF, target=IDLE,
        epoch=EPOCH,
    )  # fmt: skip


def _outcome() -> Said:
    return subjects.eviction_outcome("shop", POD), EvictionOutcome(
        intent_id=INTENT, outcome=Outcome.EVICTED, pod_uid=POD_UID, namespace="shop", pod=POD, node=HOT,
        workload=WEB, target=IDLE, reason=REASON, expected_reduction=RELIEF, decided_at=NOW, settled_at=NOW + 0.4,
    )  # fmt: skip


def _annotation() -> Said:
    load = '{"windows":{"5m":{"mean":{"cpu":0.91,"memory":0.5625}}},"sampledAt":1799999994}'
    return subjects.node_annotation(HOT), AnnotationWritten(
        object=f"node/{HOT}", annotations={"equipoise.dev/load": load}, why="cpu changed by 7 points",
        written_at=NOW + 0.1,
    )  # fmt: skip


def _score() -> Said:
    best = [NodeScore(node=IDLE, score=88.0, extender_score=10), NodeScore(node=HOT, score=12.5, extender_score=0)]
    return subjects.decision("scorer", "shop", POD), ScoreDecision(
        pod=DEMAND, policy="profile", demand=RELIEF, demand_source="measured", best=best, considered=40, neutral=False,
        decided_at=NOW + 1.2,
    )  # fmt: skip


def _advice() -> Said:
    chosen = AdvisedNode(
        node=IDLE, score=88.0, load=Resources(cpu=0.21, memory=0.3), with_pod=Resources(cpu=0.36, memory=0.35)
    )
    return subjects.placement_advice("shop", POD, POD_UID), PlacementAdvice(
        pod_uid=POD_UID, namespace="shop", pod=POD, workload=WEB, node=IDLE, policy="profile", considered=40,
        chosen=chosen, best=chosen, rank=1, regret=0.0, high=Resources(cpu=0.65, memory=0.8),
        placed_at=NOW + 1.3, advised_at=NOW + 1.4,
    )  # fmt: skip


def _review() -> Said:
    hour = int(NOW // 3_600)
    return subjects.cluster_review(hour, int(NOW)), ClusterReview(
        since=NOW, until=NOW + 600, seen=600, nodes=39.5, over={HOT: 240.0}, high=Resources(cpu=0.65, memory=0.8),
        spread=Resources(cpu=0.42, memory=0.31), deviation=Resources(cpu=0.11, memory=0.08),
    )  # fmt: skip


def _deschedule() -> Said:
    verdict = NodeClassification(
        node=HOT, state="hot", load=Resources(cpu=0.91, memory=0.5625), abnormal_evaluations=5, over=["cpu"],
        sampled_at=NOW - 6,
    )  # fmt: skip
    move = ProposedMove(
        intent_id=INTENT, namespace="shop", pod=POD, pod_uid=POD_UID, workload=WEB, node=HOT, target=IDLE,
        reason=REASON, expected_reduction=RELIEF, sampled_at=NOW - 6, expires_at=NOW + 180,
    )  # fmt: skip
    return subjects.decision("descheduler", "low_node_load"), DescheduleDecision(
        strategy="low_node_load", evaluated_at=NOW, nodes=[verdict], intents=[INTENT], moves=[move]
    )


def _heartbeat() -> Said:
    return subjects.health("descheduler", "descheduler-5c9f-a1b2c3"), Heartbeat(
        service="descheduler", id="descheduler-5c9f-a1b2c3", version="0.1.0", ready=True, leading=True, at=NOW
    )


def _plan_question() -> Said:
    return subjects.PLAN_PREVIEW, PlanRequest()


def _explain() -> Said:
    return subjects.SCORE_EXPLAIN, ExplainRequest(node=IDLE)


_SAID = (
    _node, _workload, _cycle, _placement, _intent, _outcome, _annotation, _score, _advice, _review, _deschedule,
    _explain, _plan_question, _heartbeat,
)  # fmt: skip

ANSWERS: Mapping[str, msgspec.Struct] = {
    subjects.SCORE_EXPLAIN: Explanation(policy="profile", considered=40, explained_at=NOW),
    subjects.PLAN_PREVIEW: PlanResponse(
        why={"low_node_load": "no node is hot"}, evictions=DRY_RUN, considered=40, interval=120, leader=EPOCH,
        planned_at=NOW,
    ),
}  # fmt: skip
"""What is answered to a question, by its subject."""


def example_of(channel: Channel) -> Said:
    """Something that is said there. Raises StopIteration where nothing is known: `_SAID` lacks a row."""
    said = (each() for each in _SAID)
    return next((subject, message) for subject, message in said if subjects.matches(channel.pattern, subject))


def examples() -> list[tuple[Channel, Said]]:
    """One message for each row of the table of channels."""
    return [(channel, example_of(channel)) for channel in CHANNELS]
