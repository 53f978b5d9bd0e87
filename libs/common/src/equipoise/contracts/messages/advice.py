"""`advice.>`: what the scorer says of placements that were made, and of the fleet."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.resources import Resources


class AdvisedNode(Value, frozen=True, kw_only=True):
    """A node that a placed pod is on, or could have been on."""

    node: str
    score: float
    """0..100, the policy's."""

    load: Resources
    """0..1 of the base without the pod, in the shortest window that the node has measured."""

    with_pod: Resources
    """The same with what the pod is expected to use."""


class PlacementAdvice(Message, frozen=True, kw_only=True):
    """`advice.placement.<namespace>.<pod>.<uid>`: a placed pod, scored as if its scheduler had asked."""

    pod_uid: str
    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    """Where it was placed."""

    policy: str
    considered: int
    """Nodes that could have held it, as far as the scorer knows: ready, open, with room by requests."""

    chosen: AdvisedNode | None = None
    best: AdvisedNode | None = None
    """The node of the highest score, the chosen one when none is better. None, as all of the following, when nothing
    can be said: too little is known of the fleet, or nothing of the chosen node."""

    rank: int | None = None
    """Of the chosen node: 1 + how many have a higher score."""

    regret: float | None = None
    """Points of the policy: the highest score − that of the chosen node."""

    neutral: bool = False
    """The answer would have told no nodes apart."""

    why: str = ""
    """Why it is neutral, or nothing can be said."""

    high: Resources = Resources()
    """The high marks, as load 0..1; None: this resource has none."""

    placed_at: float
    advised_at: float


class ScoresFollowed(Value, frozen=True, kw_only=True):
    """What became of a scorer's answers since it began."""

    requests: int
    """Questions of kube-scheduler."""

    placed: int = 0
    """Pods that were asked about and then placed, of the last 1,000."""

    followed: float | None = None
    """Share (0..1) of those that came to a best node of their answer; None without any."""

    by_chance: float | None = None
    """The share that a blind choice among the candidates would have reached."""


class ClusterReview(Message, frozen=True, kw_only=True):
    """`advice.cluster.<hour>.<since>`: what one scorer saw of the fleet in (a part of) an hour; said again as it grows.

    Several scorers tell of the same time, and one that was restarted begins anew within the hour: who adds up takes
    parts that do not overlap.
    """

    since: float
    until: float
    """Both within one full hour."""

    seen: float
    """Seconds between them of which enough was known of the fleet."""

    nodes: float
    """How many nodes had a known load, on average."""

    over: dict[str, float] = {}
    """Per node that was above its high mark in any resource: for how many seconds."""

    high: Resources = Resources()
    """The high marks, as load 0..1; None: this resource has none."""

    spread: Resources = Resources()
    """Highest − lowest load (0..1) of all nodes, on average over the time seen."""

    deviation: Resources = Resources()
    """Standard deviation of the load (0..1) over all nodes, on average over the time seen."""

    skipped: int = 0
    """Placements that got no advice, because they came faster than `scorer.advice.perSecond`."""

    scores: ScoresFollowed | None = None
    """Of this scorer at this moment."""
