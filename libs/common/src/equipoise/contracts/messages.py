"""Every message of the bus. A message is also the domain value and the test value: one class.

Fields that end in `_at` are Unix seconds (UTC). Usage is cores and bytes; load is a share (0..1) of the base.
A value that is not known is None, never 0. Messages ignore fields they do not know, and only ever gain fields
with defaults, so that old readers survive new writers.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from equipoise.contracts.workload import Workload


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a message."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
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


class NodeScore(Value, frozen=True, kw_only=True):
    """How one node came to its score."""

    node: str
    score: float
    """0..100, the policy's."""

    answer: int
    """0..10, as told to kube-scheduler."""

    why: str = ""


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


class NodeVerdict(Value, frozen=True, kw_only=True):
    """What an evaluation said of one node."""

    node: str
    state: Literal["hot", "idle", "between", "unknown"]
    load: Resources
    """0..1 of the base."""

    abnormal_evaluations: int = 0
    why: str = ""


class RefusedMove(Value, frozen=True, kw_only=True):
    pod: str
    node: str
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


class Heartbeat(Message, frozen=True, kw_only=True):
    """`health.<service>.<id>`, every 10 s."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []
    at: float
