"""Every message of the bus. A message is also the domain value and the test value: one class.

Fields that end in `_at` are Unix seconds (UTC). Usage is cores and bytes; load is a share (0..1) of the base.
A value that is not known is None, never 0. Messages ignore fields they do not know, and only ever gain fields
with defaults, so that old readers survive new writers.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from equipoise.contracts.workload import Workload


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a message."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole message."""


class Resources(Value, frozen=True, kw_only=True):
    """An amount of cpu (cores) and memory (bytes); None is unknown (in a request: not given)."""

    cpu: float | None = None
    memory: float | None = None


class WindowUsage(Value, frozen=True, kw_only=True):
    """What was used over one window that ends at `sampled_at`."""

    sampled_at: float
    """Time of the newest raw sample in this window, on Prometheus' clock."""

    mean: Resources = Resources()
    p95: Resources = Resources()
    max: Resources = Resources()
    deviation: Resources = Resources()


class NodeUtilization(Message, frozen=True, kw_only=True):
    """`utilization.node.<node>`: what a node and each of its pods use. Always complete."""

    node: str
    uid: str
    base: Resources
    """The allocatable (or capacity) that load refers to."""

    memory_kind: Literal["workingSet", "anonymous"] = "workingSet"
    sampled_at: float
    """Newest raw sample of the node, on Prometheus' clock."""

    queried_at: float
    """Evaluation time of the query, on Prometheus' clock."""

    windows: dict[str, WindowUsage]
    """By window name; windows that samples do not cover are absent."""

    system: Resources = Resources()
    """What the node uses beyond its pods (mean of the shortest window)."""

    pods: dict[str, Resources] = {}
    """By pod UID: mean of the shortest window."""

    epoch: int
    """Milliseconds at which this collector took over; with `sequence` it orders messages: lower is dropped."""

    sequence: int


class WorkloadUtilization(Message, frozen=True, kw_only=True):
    """`utilization.workload.<key>.<namespace>.<name>`: usage per replica."""

    workload: Workload
    replicas: int
    """Pods that were measured."""

    sampled_at: float
    queried_at: float
    windows: dict[str, WindowUsage]
    profile: dict[str, list[float | None]] = {}
    """By resource ("cpu", "memory"): 24 hourly slots of a day in UTC, usage per replica."""

    epoch: int
    sequence: int


class UtilizationCycle(Message, frozen=True, kw_only=True):
    """`utilization.cycle.<shard>`: ends a round of the collector."""

    shard: str
    cycle: int
    expected: int
    """Ready nodes, old enough, that match the collector's selector."""

    fresh: int
    """Those of them with known load."""

    queried_at: float
    skew: float = 0.0
    """Prometheus' clock minus the collector's, in seconds."""

    missing: dict[str, str] = {}
    """Some of the expected nodes without data (at most 20), and why."""

    reasons: dict[str, int] = {}
    """How many expected nodes are without data, by the kind of reason."""

    problem: str = ""
    """What keeps the collector from measuring at all; empty when nothing does."""

    epoch: int = 0
    sequence: int = 0


class Taint(Value, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = ""


class PlacedPod(Value, frozen=True, kw_only=True):
    """A pod on a node, as placement tells it."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    placed_at: float
    """When it was bound (condition PodScheduled)."""

    running_since: float | None = None
    terminating: bool = False
    preempted_at: float | None = None
    """When kube-scheduler took its place for a pod of higher priority."""

    qos: Literal["Guaranteed", "Burstable", "BestEffort"] = "BestEffort"
    priority: int = 0
    requests: Resources = Resources()
    limits: Resources = Resources()


class GonePod(Value, frozen=True, kw_only=True):
    """A pod that left within the longest window; its usage is still in the means."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    running_since: float
    gone_at: float
    preempted_at: float | None = None
    requests: Resources = Resources()
    limits: Resources = Resources()
    usage: Resources = Resources()
    """Last measured usage; unknown when it never was."""


class NodePlacement(Message, frozen=True, kw_only=True):
    """`placement.node.<node>`: the node's whole placement."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    ready: bool = False
    ready_since: float | None = None
    """Since when the condition Ready has had its present value."""

    cordoned: bool = False
    created_at: float = 0.0
    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    pod_capacity: int = 110
    pods: list[PlacedPod] = []
    gone: list[GonePod] = []
    removed: bool = False
    """The node itself is gone: forget it."""

    epoch: int
    sequence: int


class LeaseEpoch(Value, frozen=True, kw_only=True, order=True):
    """Which leader spoke: its Lease's UID, leaseTransitions and holder."""

    lease_uid: str
    transitions: int
    holder: str


class EvictionIntent(Message, frozen=True, kw_only=True):
    """`eviction.intent.<namespace>.<pod>`: a pod that should leave its node, and why."""

    id: str
    """Also the Nats-Msg-Id."""

    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    strategy: str
    reason: str
    """As people read it: `node is overutilized, cpu usage(68.53%)>threshold(50.00%)`."""

    sampled_at: float
    """Oldest sample the decision stands on."""

    decided_at: float
    expires_at: float
    relief: Resources
    """What the node is expected to lose."""

    target: str
    """Where the replacement is expected to go. A hint, never a reservation."""

    epoch: LeaseEpoch


class Outcome(StrEnum):
    """What became of an intent."""

    EVICTED = "evicted"
    ALREADY_GONE = "already_gone"
    UID_CHANGED = "uid_changed"
    BLOCKED_PDB = "blocked_pdb"
    REJECTED_POLICY = "rejected_policy"
    REJECTED_LIMIT = "rejected_limit"
    REJECTED_FIT = "rejected_fit"
    REJECTED_STALE = "rejected_stale"
    PAUSED = "paused"
    EXPIRED = "expired"
    FAILED = "failed"
    DRY_RUN = "dry_run"


class EvictionOutcome(Message, frozen=True, kw_only=True):
    """`eviction.outcome.<namespace>.<pod>`: exactly one per intent."""

    intent_id: str
    outcome: Outcome
    detail: str = ""
    """Why, as people read it."""

    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    target: str
    reason: str
    relief: Resources
    decided_at: float
    settled_at: float
    limit: str = ""
    """The limit that refused, as the configuration calls it."""

    room_at: float | None = None
    """When that limit may have room again; None when that is not a matter of time."""


class AnnotationWritten(Message, frozen=True, kw_only=True):
    """`annotation.node.<node>` and `annotation.workload.…`: what was written on an object."""

    object: str
    """`node/<name>`, or the workload as text."""

    annotations: dict[str, str]
    why: str
    written_at: float


class PodDemand(Message, frozen=True, kw_only=True):
    """What the bus may know of a pod that waits for a node. Never the Pod: its env values are secrets."""

    namespace: str
    name: str
    uid: str
    workload: Workload | None = None
    qos: Literal["Guaranteed", "Burstable", "BestEffort"] = "Burstable"
    priority: int = 0
    requests: Resources = Resources()
    limits: Resources = Resources()


class PrioritizeQuestion(Message, frozen=True, kw_only=True):
    """Asked on `score.prioritize` and `score.filter`."""

    pod: PodDemand
    nodes: list[str]


class Ranking(Message, frozen=True, kw_only=True):
    """Answer to a prioritize question: one integer 0..10 per node asked about."""

    scores: dict[str, int]
    neutral: bool = False
    why: str = ""
    """Why the answer is neutral; empty when it is not."""


class Filtering(Message, frozen=True, kw_only=True):
    """Answer to a filter question: which nodes stay, and why the others do not."""

    nodes: list[str]
    refused: dict[str, str] = {}


class ExplainQuestion(Message, frozen=True, kw_only=True):
    """Asked on `score.explain`: a pod by its name, any pod, or a node alone. It books nothing and changes nothing."""

    namespace: str = ""
    name: str = ""
    """Of a pod that has a node: explained as if it asked now, without itself on its node."""

    pod: PodDemand | None = None
    """Instead of a name: any pod, also one that does not exist."""

    node: str = ""
    """To be told of however it scores. Without a pod: as a pod sees it that asks for nothing."""

    nodes: list[str] = []
    """The candidates; empty: all that could hold the pod as far as the scorer knows. The pod's own node and `node` are
    candidates in any case."""


class Correction(Value, frozen=True, kw_only=True):
    """Pods that a window shows in part, and what they change in its mean."""

    amount: Resources = Resources()
    pods: list[str] = []
    """`namespace/name`, at most 10, those that change most first."""

    count: int = 0
    """Of all of them."""


class WindowExplanation(Value, frozen=True, kw_only=True):
    """One window of a node: measured mean + added − taken off (never below 0) + booked = load × base."""

    window: str
    measured: WindowUsage | None = None
    """As the collector said it; None: there is no value."""

    added: Correction = Correction()
    """Of pods that arrived and are not, or not wholly, in the mean yet."""

    taken_off: Correction = Correction()
    """Of pods that left or are leaving, and of the pod in question if it is here, as far as they are in the mean."""

    booked: Resources = Resources()
    """Promised to pods that are not heard to be here yet."""

    load: Resources = Resources()
    """0..1 of the base, as the policy saw it; unknown where the value may not be used."""

    load_with_pod: Resources = Resources()
    statistics: dict[str, Resources] = {}
    """By name, as `load`: what the policy looks at beside the mean."""

    age: float | None = None
    """Seconds since the newest sample in it."""

    life: float
    """Seconds for which its value may be used."""

    why_unknown: str = ""
    """Why its value is not used; empty when it is."""


class NodeExplanation(Value, frozen=True, kw_only=True):
    """How one node came to its score, with all that went in."""

    node: str
    rank: int
    """1 is the best; nodes of equal answers are in the order of their scores."""

    answer: int
    """As kube-scheduler would be told: 0..10, or up to the resolution of the scorer."""

    score: float
    """0..100, the policy's; 0 for a node to keep away from."""

    parts: dict[str, float] = {}
    """By policy, where several are mixed."""

    standing: Literal["", "unknown", "avoided", "overfull", "preferred"] = ""
    why: str = ""
    """What the standing comes from, as people read it."""

    base: Resources = Resources()
    """Cores and bytes that load refers to."""

    requested: Resources = Resources()
    limited: Resources = Resources()
    age: float | None = None
    """Seconds since the node's newest sample; None: nothing was heard."""

    life: float
    """Seconds for which the node may go without a new one."""

    answers_booked: int = 0
    """Pods that were lately told of it as a best node, and are not heard to be placed."""

    replacements_booked: int = 0
    """Pods evicted for it whose replacements are on their way."""

    windows: list[WindowExplanation] = []


class Overtaking(Value, frozen=True, kw_only=True):
    """What would have changed the order."""

    best: str
    runner_up: str
    cpu_change: float | None = None
    """Smallest change of the best node's CPU load, in points, with which the runner-up is better; None: there is none,
    or the order does not come from loads."""

    why: str
    """As people read it."""


class Explanation(Message, frozen=True, kw_only=True):
    """Answer to an explain question. Of many nodes it tells the best ones, the pod's own and the one asked about."""

    problem: str = ""
    """Why nothing can be explained, and what to do; empty when the rest is there."""

    pod: PodDemand | None = None
    """None: a pod that asks for nothing."""

    runs_on: str = ""
    """The node that the pod has; it was scored without itself there."""

    policy: str = ""
    demand: Resources = Resources()
    """Expected usage, for the shortest window."""

    demand_sources: dict[str, str] = {}
    """Per resource the link of the chain that told."""

    chain: list[str] = []
    """Links in the order in which they are asked."""

    looks_at: list[str] = []
    """The windows that the policy looks at, the most telling first; empty where it looks at whole days."""

    level: Resources = Resources()
    """0..1: the load that nodes are led to."""

    compensation: str = ""
    """The mode: proportional, cliff, off."""

    considered: int = 0
    neutral: bool = False
    """All nodes get the same answer."""

    why: str = ""
    """Why it is neutral; empty when it is not."""

    doubt: str = ""
    """What is wrong with the coverage; empty when enough is known."""

    nodes: list[NodeExplanation] = []
    """By rank."""

    overtaking: Overtaking | None = None
    """None with fewer than two nodes."""

    notes: list[str] = []
    """What the numbers do not say, as people read it."""

    explained_at: float = 0.0


class NodeScore(Value, frozen=True, kw_only=True):
    """How one node came to its score."""

    node: str
    score: float
    """0..100, the policy's."""

    answer: int
    """0..10, as told to kube-scheduler."""

    why: str = ""


class ShadowOpinion(Value, frozen=True, kw_only=True):
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
    shadow: ShadowOpinion | None = None
    """None: no policy looks on, or no nodes were looked at."""


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

    asked: int
    """Questions of kube-scheduler."""

    placed: int = 0
    """Pods that were asked about and then placed, of the last 1,000."""

    followed: float | None = None
    """Share (0..1) of those that came to a best node of their answer; None without any."""

    by_chance: float | None = None
    """The share that a blind choice among the candidates would have reached."""


class FleetReview(Message, frozen=True, kw_only=True):
    """`advice.fleet.<hour>.<since>`: what one scorer saw of the fleet in (a part of) an hour; said again as it grows.

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


NodeState = Literal["hot", "idle", "between", "sparse", "unknown"]


class NodeVerdict(Value, frozen=True, kw_only=True):
    """What an evaluation said of one node."""

    node: str
    state: NodeState
    """sparse: with so little on it that it may be emptied."""

    load: Resources
    """0..1 of the base."""

    abnormal_evaluations: int = 0
    why: str = ""
    over: list[str] = []
    """The resources in which a hot node is over its mark."""

    sampled_at: float = 0.0
    """The oldest sample that was looked at; 0 where none was."""

    @property
    def abnormal(self) -> bool:
        """Does it count towards a move away from the node?"""
        return self.state in ("hot", "sparse")


class RefusedMove(Value, frozen=True, kw_only=True):
    pod: str
    node: str
    why: str


class ProposedMove(Value, frozen=True, kw_only=True):
    """A move as it was decided: what an intent says of it, kept when the intent itself is done."""

    intent_id: str
    namespace: str
    pod: str
    pod_uid: str
    workload: Workload | None = None
    node: str
    target: str
    reason: str
    relief: Resources
    sampled_at: float
    """Oldest sample the decision stands on."""

    expires_at: float


class AssumedMove(Value, frozen=True, kw_only=True):
    """A move that was a dry run: its pod counts on the target, and is proposed no more, until then."""

    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    since: float
    until: float


class Landing(Value, frozen=True, kw_only=True):
    """Where the replacement of an evicted pod was seen."""

    intent_id: str
    namespace: str
    pod: str
    """The one that was evicted."""

    node: str
    """Which it had left."""

    target: str
    """Where its replacement was expected."""

    replacement: str
    landed_on: str


class Relief(Value, frozen=True, kw_only=True):
    """What the load of a node did after evictions from it, once its shortest window shows nothing of their pods."""

    node: str
    intents: list[str]
    """Those whose evictions it tells of."""

    over: list[str]
    """The resources that are judged."""

    before: Resources
    """Usage when the first of them was proposed, cores and bytes."""

    after: Resources
    expected: Resources
    """What all of them together should have taken away."""

    better: bool
    """By at least half of what was expected."""


class RestingNode(Value, frozen=True, kw_only=True):
    """A node that nothing is moved away from until then, and why."""

    node: str
    until: float
    why: str


class DescheduleDecision(Message, frozen=True, kw_only=True):
    """`decision.descheduler.<strategy>`: what one evaluation saw, proposed and left alone."""

    strategy: str
    evaluated_at: float
    nodes: list[NodeVerdict]
    intents: list[str]
    """Their ids."""

    refused: list[RefusedMove] = []
    """At most 50."""

    why: str = ""
    """Why nothing was proposed; empty when something was."""

    moves: list[ProposedMove] = []
    """What the intents asked for."""

    assumed: list[AssumedMove] = []
    """Moves assumed in dry run: the loads of `nodes` are with them. At most 50, the newest."""

    landings: list[Landing] = []
    """Replacements seen since the last evaluation. As `reliefs`, told by the first strategy only."""

    reliefs: list[Relief] = []
    resting: list[RestingNode] = []
    """Nodes that did not get better and are left alone."""


class PlanQuestion(Message, frozen=True, kw_only=True):
    """Asked on `plan.show`: what would move now? It proposes nothing and changes nothing."""


class PlannedMove(Value, frozen=True, kw_only=True):
    """A pod that would move now, were its node abnormal for long enough."""

    strategy: str
    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    reason: str
    relief: Resources
    """Cores and bytes."""

    sampled_at: float
    later: bool = False
    """It has no room yet: other moves make it, and it is proposed once it is there."""


class PlannedNode(Value, frozen=True, kw_only=True):
    """A node that is abnormal, or that planned moves leave or come to."""

    strategy: str
    node: str
    state: NodeState
    before: Resources
    """Load (0..1 of the base) over the strategy's first window, with assumed moves, without those under way."""

    after: Resources
    """Once the moves under way and the planned ones are done."""

    abnormal_evaluations: int = 0
    missing_evaluations: int = 0
    """Abnormal evaluations that are still needed until something is really proposed; 0 for a node that is well."""

    why: str = ""


class MoveUnderWay(Value, frozen=True, kw_only=True):
    """Proposed and not settled yet, or evicted with no replacement seen."""

    namespace: str
    pod: str
    workload: Workload | None = None
    node: str
    target: str
    evicted_at: float | None = None


class PlanShown(Message, frozen=True, kw_only=True):
    """Answer to a plan question, by the leading descheduler. Every list holds at most 500."""

    moves: list[PlannedMove] = []
    nodes: list[PlannedNode] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    """By strategy that would move nothing: why not."""

    under_way: list[MoveUnderWay] = []
    assumed: list[AssumedMove] = []
    resting: list[RestingNode] = []
    evictions: str = ""
    """What binders do with intents at present: `real`, `dry run`, or why nothing; empty when no binder was heard."""

    considered: int = 0
    """Nodes looked at."""

    interval: float = 0.0
    """Seconds between two evaluations."""

    leader: LeaseEpoch
    planned_at: float


REAL, DRY_RUN = "real", "dry run"
"""What binders say of their evictions while nothing keeps them from any."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """`health.<service>.<id>`, every 10 s."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []
    evictions: str = ""
    """Of a binder: `real`, `dry run`, or why it carries out nothing."""

    part: str = ""
    """Of a collector: the part of the cluster that it shares with others of the same (`collector.shard`)."""

    at: float
