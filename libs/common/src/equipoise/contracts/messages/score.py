"""`decision.scorer.>`: samples of the scorer's responses to kube-scheduler."""

from equipoise.contracts.messages.example import HOT_NODE, IDLE_NODE, NOW, USAGE
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.pod_demand import POD_DEMAND, PodDemand
from equipoise.contracts.messages.resources import Resources


class NodeScore(Value, frozen=True, kw_only=True):
    """The score of one node."""

    node: str
    score: float
    """0..100, the policy's."""

    extender_score: int
    """0..10, the integer in the response to kube-scheduler."""

    why: str = ""


class ShadowResult(Value, frozen=True, kw_only=True):
    """The scores of the second policy (`scorer.shadow`), which do not go to kube-scheduler."""

    policy: str
    best: list[str]
    """Nodes with its highest score, at most ten; empty when all scores are equal."""

    agrees: bool
    """One of its best nodes is also a best node of the response, or one of the two gives equal scores."""


class ScoreDecision(Message, frozen=True, kw_only=True):
    """`decision.scorer.<namespace>.<pod>`: a sampled response with its inputs."""

    pod: PodDemand
    policy: str
    demand: Resources
    demand_source: str
    level: Resources = Resources()
    """The target level of the cluster, as load 0..1."""

    best: list[NodeScore]
    """The best nodes, at most ten."""

    considered: int
    neutral: bool
    why: str = ""
    decided_at: float
    shadow: ShadowResult | None = None
    """None: there is no second policy, or no node was scored."""


SCORE_DECISION = ScoreDecision(
    pod=POD_DEMAND,
    policy="profile",
    demand=USAGE,
    demand_source="measured",
    best=[
        NodeScore(node=IDLE_NODE, score=88.0, extender_score=10),
        NodeScore(node=HOT_NODE, score=12.5, extender_score=0),
    ],
    considered=40,
    neutral=False,
    decided_at=NOW + 1.2,
)
