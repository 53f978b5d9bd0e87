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
    """The score of the policy, 0..100."""

    extender_score: Number
    """0..10, the integer in the response to kube-scheduler."""

    why: str = ""


class ShadowResult(Value, frozen=True, kw_only=True):
    """The scores of the second policy (`scorer.shadow`), which do not go to kube-scheduler."""

    policy: str
    best: list[str]
    """The nodes with the highest score of the second policy, at most ten; empty when all scores are equal."""

    agrees: bool
    """Whether a best node of the second policy is also a best node of the response. Also true when one of the two
    policies gives all nodes the same score."""


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
    """The result of the second policy; None without one, or if no node was scored."""


class ExplainRequest(Message, frozen=True, kw_only=True):
    """Request on `score.explain`: a pod by its name, any pod, or a node. It reserves nothing and changes nothing."""

    namespace: str = ""
    name: str = ""
    """Name of a placed pod: it is scored now, as if it were not on its node."""

    pod: PodDemand | None = None
    """A pod instead of a name, even one that does not exist."""

    node: str = ""
    """A node to include in the response, whatever its score. Without a pod, it is scored for a pod without requests."""

    nodes: list[str] = []
    """The candidates. If empty, they are all nodes that have room for the pod. The pod's own node and `node` are always
    candidates."""


class Correction(Value, frozen=True, kw_only=True):
    """Pods that a window includes in part, and the resulting correction of its mean."""

    amount: Resources = Resources()
    pods: list[str] = []
    """`namespace/name`, at most 10, the largest corrections first."""

    count: Count = 0
    """The number of all corrected pods."""


class WindowExplanation(Value, frozen=True, kw_only=True):
    """One window of a node: measured mean + added − subtracted − batch work + reserved = load × base.

    No difference is below 0. `NodeExplanation.recent` is corrected in the same way, and is the load where it is higher.
    """

    window: str
    measured: WindowUsage | None = None
    """The mean as published by the collector; None without a value."""

    added: Correction = Correction()
    """The usage of pods that arrived and are not, or not fully, in the mean yet."""

    subtracted: Correction = Correction()
    """The part of the mean of pods that left, and of the explained pod on its own node."""

    batch_work: Correction = Correction()
    """The usage of batch work that does not count (`load.batchWorkWeight`)."""

    reserved: Resources = Resources()
    """Reserved for pods that are not placed yet."""

    load: Resources = Resources()
    """The load that the policy uses, 0..1 of the base; unknown if the value is outdated."""

    load_with_pod: Resources = Resources()
    statistics: dict[str, Resources] = {}
    """The other statistics that the policy uses, by name, like `load`."""

    age: Seconds | None = None
    """Seconds since the newest sample in the window."""

    lifetime: Seconds
    """Seconds for which the value of the window may be used."""

    unknown_reason: str = ""
    """Why the value of the window is not used; empty when it is used."""


class BandExplanation(Value, frozen=True, kw_only=True):
    """The amounts that score a pod of a band: reclaimed − requested − reserved − the pod's own request = left."""

    band: OfferedBand
    reclaimed: Resources = Resources()
    requested: Resources = Resources()
    """The requests of the other pods of the band on the node."""

    reserved: Resources = Resources()
    """The amounts for pods of the band that are not placed yet."""

    left: Resources = Resources()
    """The amounts left with the pod; negative if more is requested than was reclaimed."""

    capacity: Resources = Resources()
    """The capacity of the node. The score depends on `left` as a share of it."""

    hours: Seconds = 0.0
    """The time for which the reclaimed amounts are expected to last."""

    age: Seconds | None = None
    """Seconds since the reclaimer evaluated the node; None: never."""

    unknown_reason: str = ""
    """Why the amounts are unknown; empty when they are known."""


class NodeExplanation(Value, frozen=True, kw_only=True):
    """The score of one node, with all of its inputs."""

    node: str
    rank: Count
    """1 is the best; nodes with equal integers are ordered by their scores."""

    extender_score: Number
    """The integer for kube-scheduler: 0..10, or up to `scorer.extender.maxScore`."""

    score: Points
    """The score of the policy, 0..100; 0 for a node to avoid."""

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
    """The usage in the last few scrapes. While pods are new, it counts for the windows in which usage is lower."""

    reserved_by_responses: Count = 0
    """Pods for which the node recently had the highest score, and that are not placed yet."""

    reserved_for_replacements: Count = 0
    """Evicted pods whose replacements are expected on the node."""

    further: dict[str, Points] = {}
    """The known loads of further resources, and kinds of pressure, that the policy uses: shares."""

    high_priority_load: Resources = Resources()
    """The load without the usage of batch work, 0..1, in the shortest window whose value is known. Empty for a node
    without batch work, where it equals the load."""

    total_load: Resources = Resources()
    """Like `high_priority_load`, with all usage of batch work."""

    band: BandExplanation | None = None
    """The amounts of the pod's band. None: the pod has no band, or the policy scores it."""

    windows: list[WindowExplanation] = []


class RankChange(Value, frozen=True, kw_only=True):
    """The change that would have put the second node first."""

    best: str
    runner_up: str
    cpu_change: Points | None = None
    """Smallest change of the best node's CPU load, in points, that makes the runner-up better. None: no change does, or
    the order does not depend on loads."""

    why: str
    """The reason in words."""


class Explanation(Message, frozen=True, kw_only=True):
    """Response on `score.explain`. Of many nodes, it has only the best ones, the pod's own and the requested one."""

    checked: ClassVar[bool] = True

    problem: str = ""
    """Why nothing can be explained, and what to do; empty when there is an explanation."""

    pod: PodDemand | None = None
    """The explained pod; None for a pod without requests."""

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
    """Why the scores are neutral; empty if they are not."""

    data_problem: str = ""
    """Why the coverage is too low; empty when the load of enough nodes is known."""

    nodes: list[NodeExplanation] = []
    """The nodes, by rank."""

    rank_change: RankChange | None = None
    """The change that would have put the second node first; None with fewer than two nodes."""

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
