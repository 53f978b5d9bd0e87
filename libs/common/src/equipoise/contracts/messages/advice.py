"""`advice.>`: the scorer's review of placements, and of the load of all nodes."""

from equipoise.contracts.bounds import Count, Points, Seconds, Time
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.example import HOT_NODE, IDLE_NODE, NOW, POD, POD_UID, WORKLOAD
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.values.resources import Resources


class AdvisedNode(Value, frozen=True, kw_only=True):
    """The node of a placed pod, or another candidate."""

    node: str
    score: Points
    """The score of the policy, 0..100."""

    load: Resources
    """The load of the node without the pod, as a share (0..1) of the base, in the shortest measured window."""

    with_pod: Resources
    """The load of the node with the expected usage of the pod added."""


class PlacementAdvice(Message, frozen=True, kw_only=True):
    """`advice.placement.<namespace>.<pod>.<uid>`: a placed pod, scored as for a request of kube-scheduler."""

    pod_uid: str
    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    """The node where it was placed."""

    policy: str
    considered: Count
    """Candidates: nodes that are Ready and schedulable and have room for its requests."""

    chosen: AdvisedNode | None = None
    best: AdvisedNode | None = None
    """The node with the highest score; the chosen node if no other is better. None, like all fields below, if the load
    of the chosen node or of too many other nodes is unknown."""

    rank: Count | None = None
    """The rank of the chosen node: 1 + the number of nodes with a higher score."""

    regret: Points | None = None
    """The highest score minus the score of the chosen node (points, 0..100)."""

    neutral: bool = False
    """All nodes would have got the same score."""

    why: str = ""
    """Why the advice is neutral, or why there is no score."""

    high: Resources = Resources()
    """The high thresholds, as load 0..1; None: this resource has none."""

    hint: PlacedHint | None = None
    """The placement hint with which it was created; None: unknown."""

    placed_at: Time
    advised_at: Time


class ScoresFollowed(Value, frozen=True, kw_only=True):
    """Whether kube-scheduler followed the scores since this scorer started."""

    requests: Count
    """Requests of kube-scheduler."""

    placed: Count = 0
    """Pods that were scored and then placed, of the last 1,000."""

    followed: Points | None = None
    """Share (0..1) of these pods that were placed on a node with the highest score; None if there were none."""

    by_chance: Points | None = None
    """The share that a random choice among the candidates would have reached."""


class ClusterReview(Message, frozen=True, kw_only=True):
    """`advice.cluster.<hour>.<since>`: what one scorer observed within one hour; published again as it grows.

    Several scorers publish about the same time, and a restarted scorer begins again within the hour. To add them up,
    use reviews that do not overlap.
    """

    since: Time
    until: Time
    """The end; it is in the same full hour as `since`."""

    seen: Seconds
    """Seconds between `since` and `until` in which the load of enough nodes was known."""

    nodes: Points
    """Average number of counted nodes: those with a known load that are Ready, not cordoned, and not control-plane
    nodes."""

    over: dict[str, Seconds] = {}
    """The seconds that each node was above its high threshold in any resource."""

    over_without_pressure: dict[str, Seconds] = {}
    """The part of `over` in which no pod waited for others: with `descheduler.requirePressure`, the node is not hot."""

    under_with_pressure: dict[str, Seconds] = {}
    """The seconds that each node was at or below its high thresholds, and hot because pods waited for others."""

    high: Resources = Resources()
    """The high thresholds, as load 0..1; None: this resource has none."""

    spread: Resources = Resources()
    """Highest minus lowest load (0..1) of the counted nodes, averaged over the seconds observed."""

    deviation: Resources = Resources()
    """Standard deviation of the load (0..1) over the counted nodes, averaged over the seconds observed."""

    skipped: Count = 0
    """Placements without advice, because of the rate limit `scorer.advice.perSecond`."""

    scores: ScoresFollowed | None = None
    """The scores of this scorer, until now."""


_CHOSEN = AdvisedNode(
    node=IDLE_NODE, score=88.0, load=Resources(cpu=0.21, memory=0.3), with_pod=Resources(cpu=0.36, memory=0.35)
)

PLACEMENT_ADVICE = PlacementAdvice(
    pod_uid=POD_UID,
    namespace="shop",
    pod=POD,
    workload=WORKLOAD,
    node=IDLE_NODE,
    policy="profile",
    considered=40,
    chosen=_CHOSEN,
    best=_CHOSEN,
    rank=1,
    regret=0.0,
    high=Resources(cpu=0.65, memory=0.8),
    hint=PlacedHint(preferred=20, avoided=10, weight=50),
    placed_at=NOW + 1.3,
    advised_at=NOW + 1.4,
)

CLUSTER_REVIEW = ClusterReview(
    since=NOW,
    until=NOW + 600,
    seen=600,
    nodes=39.5,
    over={HOT_NODE: 240.0},
    over_without_pressure={HOT_NODE: 60.0},
    high=Resources(cpu=0.65, memory=0.8),
    spread=Resources(cpu=0.42, memory=0.31),
    deviation=Resources(cpu=0.11, memory=0.08),
)
