"""`score.explain` and `decision.scorer.>`: scores with their inputs, on request and as samples of the responses."""

from typing import ClassVar, Literal

from equipoise.contracts.bounds import Count, Number, Points, Seconds, Time
from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.messages.example import HOT_NODE, IDLE_NODE, NOW, USAGE
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.pod_demand import POD_DEMAND, PodDemand
from equipoise.contracts.messages.utilization import RecentUsage, WindowUsage
from equipoise.contracts.messages.values.resources import Resources


class NodeScore(Value, frozen=True, kw_only=True):
    """The score of one node."""

    node: str
    score: Points
    """0..100, the policy's."""

    extender_score: Number
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

    checked: ClassVar[bool] = True

    pod: PodDemand
    policy: str
    demand: Resources
    demand_source: str
    level: Resources = Resources()
    """The target level of the cluster, as load 0..1."""

    best: list[NodeScore]
    """The best nodes, at most ten."""

    considered: Count
    neutral: bool
    why: str = ""
    decided_at: Time
    shadow: ShadowResult | None = None
    """None: there is no second policy, or no node was scored."""


class ExplainRequest(Message, frozen=True, kw_only=True):
    """Request on `score.explain`: a pod by its name, any pod, or a node. It reserves nothing and changes nothing."""

    namespace: str = ""
    name: str = ""
    """Name of a placed pod: it is scored now, as if it were not on its node."""

    pod: PodDemand | None = None
    """A pod instead of a name, even one that does not exist."""

    node: str = ""
    """A node to include in the response, whatever its score. Without a pod: scored for a pod without requests."""

    nodes: list[str] = []
    """The candidates; empty: all nodes that have room for the pod. The pod's own node and `node` are always
    candidates."""


class Correction(Value, frozen=True, kw_only=True):
    """Pods that a window includes in part, and the resulting correction of its mean."""

    amount: Resources = Resources()
    pods: list[str] = []
    """`namespace/name`, at most 10, the largest corrections first."""

    count: Count = 0
    """The number of all of them."""


class WindowExplanation(Value, frozen=True, kw_only=True):
    """One window of a node: measured mean + added − subtracted − batch work + reserved = load × base.

    No difference is below 0. With `NodeExplanation.recent` the load is higher if that is, corrected in the same way.
    """

    window: str
    measured: WindowUsage | None = None
    """The mean as published by the collector; None: there is no value."""

    added: Correction = Correction()
    """The usage of pods that arrived and are not, or not fully, in the mean yet."""

    subtracted: Correction = Correction()
    """The part of the mean of pods that left, and of the explained pod on its own node."""

    batch_work: Correction = Correction()
    """The part of the usage of pods that give way to others which does not count (`load.batchWorkWeight`)."""

    reserved: Resources = Resources()
    """Reserved for pods that are not placed yet."""

    load: Resources = Resources()
    """0..1 of the base, as used by the policy; unknown if the value is outdated."""

    load_with_pod: Resources = Resources()
    statistics: dict[str, Resources] = {}
    """The other statistics that the policy uses, by name, like `load`."""

    age: Seconds | None = None
    """Seconds since the newest sample in it."""

    lifetime: Seconds
    """Seconds for which its value may be used."""

    unknown_reason: str = ""
    """Why its value is not used; empty when it is."""


class BandExplanation(Value, frozen=True, kw_only=True):
    """What decides for a pod of a band: reclaimed − requested − reserved − the pod's own request = left."""

    band: OfferedBand
    reclaimed: Resources = Resources()
    requested: Resources = Resources()
    """The requests of the other pods of the band on the node."""

    reserved: Resources = Resources()
    """The amounts for pods of the band that are not placed yet."""

    left: Resources = Resources()
    """The amounts left with the pod; negative if more is requested than was reclaimed."""

    capacity: Resources = Resources()
    """The capacity of the node: `left` counts as a share of it."""

    hours: Seconds = 0.0
    """The time for which the reclaimed amounts are expected to last."""

    age: Seconds | None = None
    """Seconds since the reclaimer evaluated the node; None: never."""

    unknown_reason: str = ""
    """Why nothing is known of it; empty when it is."""


class NodeExplanation(Value, frozen=True, kw_only=True):
    """The score of one node, with all of its inputs."""

    node: str
    rank: Count
    """1 is the best; nodes with equal integers are ordered by their scores."""

    extender_score: Number
    """The integer for kube-scheduler: 0..10, or up to `scorer.extender.maxScore`."""

    score: Points
    """0..100, the policy's; 0 for a node to avoid."""

    parts: dict[str, Points] = {}
    """The score of each policy of a mix, by policy."""

    status: Literal["", "unknown", "avoided", "overfull", "preferred"] = ""
    why: str = ""
    """The reason for the status, in words."""

    base: Resources = Resources()
    """Cores and bytes that load refers to."""

    requests: Resources = Resources()
    limits: Resources = Resources()
    age: Seconds | None = None
    """Seconds since the node's newest sample; None: there is none."""

    lifetime: Seconds
    """Seconds after which a node without a new sample is unknown."""

    recent: RecentUsage | None = None
    """What the node has used recently, which counts where it is higher than a window; only while pods are new."""

    reserved_by_responses: Count = 0
    """Pods for which it recently had the highest score, and that are not placed yet."""

    reserved_for_replacements: Count = 0
    """Evicted pods whose replacements are expected on it."""

    high_priority_load: Resources = Resources()
    """0..1 in the shortest window that is known: without the usage of batch work. Only of nodes with batch work; of
    others it is the load."""

    total_load: Resources = Resources()
    """The same as `high_priority_load`, with all usage of batch work."""

    band: BandExplanation | None = None
    """The amounts of the pod's band. None: it is not of a band, or is scored by the policy."""

    windows: list[WindowExplanation] = []


class RankChange(Value, frozen=True, kw_only=True):
    """What would have changed the order of the first two nodes."""

    best: str
    runner_up: str
    cpu_change: Points | None = None
    """Smallest change of the best node's CPU load, in points, that makes the runner-up better; None: there is none, or
    the order does not depend on loads."""

    why: str
    """The reason in words."""


class Explanation(Message, frozen=True, kw_only=True):
    """Response on `score.explain`: of many nodes only the best, the pod's own and the requested one."""

    checked: ClassVar[bool] = True

    problem: str = ""
    """Why nothing can be explained, and what to do; empty when there is an explanation."""

    pod: PodDemand | None = None
    """None: a pod without requests."""

    current_node: str = ""
    """The node of the pod; it was scored as if the pod were not there."""

    placed_hint: PlacedHint | None = None
    """The placement hint with which the pod was created; None: unknown."""

    policy: str = ""
    demand: Resources = Resources()
    """Expected usage, for the shortest window."""

    demand_sources: dict[str, str] = {}
    """The estimate source that was used, by resource."""

    chain: list[str] = []
    """The estimate sources, in order of precedence."""

    windows_used: list[str] = []
    """The windows that the policy uses, the most important first; empty for a policy that uses 24-hour profiles."""

    level: Resources = Resources()
    """The target load, 0..1."""

    compensation: str = ""
    """The mode: proportional, cliff, off."""

    considered: Count = 0
    neutral: bool = False
    """All nodes get the same score."""

    why: str = ""
    """Why it is neutral; empty if it is not."""

    data_problem: str = ""
    """Why the coverage is too low; empty when the load of enough nodes is known."""

    nodes: list[NodeExplanation] = []
    """The nodes, by rank."""

    rank_change: RankChange | None = None
    """None with fewer than two nodes."""

    notes: list[str] = []
    """Remarks about the numbers."""

    explained_at: Time = 0.0


EXPLAIN_REQUEST = ExplainRequest(node=IDLE_NODE)
EXPLANATION = Explanation(policy="profile", considered=40, explained_at=NOW)
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
