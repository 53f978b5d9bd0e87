"""`score.prioritize`, `score.filter`, `decision.scorer.>`: what the scorer is asked for a pod and answers."""

from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources


class NodeScore(Value, frozen=True, kw_only=True):
    """How one node came to its score."""

    node: str
    score: float
    """0..100, the policy's."""

    extender_score: int
    """0..10, as told to kube-scheduler."""

    why: str = ""


class ShadowResult(Value, frozen=True, kw_only=True):
    """What the policy that only looks on (`scorer.shadow`) would have answered."""

    policy: str
    best: list[str]
    """Nodes of its top level, at most ten; empty when it would tell no nodes apart."""

    agrees: bool
    """One of its best nodes is a best node of the answer, or one of the two tells no nodes apart."""


class ScoreDecision(Message, frozen=True, kw_only=True):
    """`decision.scorer.<namespace>.<pod>`: a sampled answer with its inputs."""

    pod: PodDemand
    policy: str
    demand: Resources
    demand_source: str
    level: Resources = Resources()
    """The cluster's level that was aimed at, as load 0..1."""

    best: list[NodeScore]
    """The best nodes, at most ten."""

    considered: int
    neutral: bool
    why: str = ""
    decided_at: float
    shadow: ShadowResult | None = None
    """None: no policy looks on, or no nodes were looked at."""
