"""What the live views show: nodes, moves, the spread over time, services, and what is unknown."""

import msgspec

from equipoise.binder.decisions.status import LimitUsage
from equipoise.contracts.messages.descheduling import NodeState, RefusedMove
from equipoise.contracts.messages.plan import PlannedMove
from equipoise.contracts.messages.values.resources import Resources


class NodeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node. Its JSON is an array in this order, because thousands of nodes are sent at once."""

    node: str
    cpu: float | None = None
    """Load in the shortest window, as a share (0..1) of the base. It is the load in the plan for nodes that the plan
    has, otherwise the measured load.
    """

    memory: float | None = None
    unknown: str = ""
    """Why the load of a resource is unknown; empty when both are known."""

    cpu_requests: float | None = None
    """The requests of all pods as a share (0..1) of the allocatable amount; None until the placement is received."""

    memory_requests: float | None = None
    pods: int | None = None
    state: NodeState | None = None
    """The most urgent state of all strategies in the last evaluation or plan; None if these did not have the node."""

    set_apart: str = ""
    """Why kube-scheduler places no ordinary pods on the node, so that it does not count for the spread."""

    emptied: str = ""
    """Whether consolidation is emptying the node, and since when; empty if it does not."""

    further: dict[str, float] = {}
    """The known loads of further resources (`load.resources`), by name."""

    waits: str = ""
    """How long processes of the node wait, such as `CPU 31%, memory 0%, disks 2%`; empty if it is unknown."""


class MoveRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposed eviction, and what became of it."""

    id: str
    namespace: str
    pod: str
    workload: str = ""
    node: str
    target: str
    strategy: str = ""
    reason: str
    decided_at: float
    expires_at: float | None = None
    without_gap: bool = False
    """Whether the pod is evicted only when its replacement is ready."""

    gain_and_cost: str = ""
    """What the move gains and costs, as text; empty if it is not known."""

    outcome: str = ""
    """The outcome; empty if there is none yet, `unknown` if the intent has expired without an outcome."""

    detail: str = ""
    limit: str = ""
    settled_at: float | None = None
    retry_at: float | None = None
    replacement: str = ""
    placed_on: str = ""
    """The node of the replacement; empty if the replacement is not placed, or its node is not known yet."""

    reduced: bool | None = None
    """Whether the load of the node fell as expected; None if it was not measured yet."""


class SpreadPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The spread and the mean (0..1) of the loads of all nodes at one time; None if fewer than two loads are known."""

    at: float
    cpu: float | None
    """Highest minus lowest load."""

    memory: float | None
    cpu_mean: float | None = None
    memory_mean: float | None = None


class ServiceRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process of a service, by its last heartbeat."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []


class Unknown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is unknown."""

    what: str
    why: str
    nodes: list[str] = []
    """Some of the nodes; empty when it is not about nodes."""

    count: int = 0


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the whole cluster."""

    nodes: int
    known: int
    """Nodes whose cpu and memory load are known."""

    expected: int | None
    """Nodes that the collectors measure; None: no cycle was received."""

    hot: int
    spread: Resources
    mean: Resources
    high: Resources
    """The high thresholds (0..1); None if there are none, or none were received."""

    evictions: str
    """The state that binders report: `real`, `dry run`, or why nothing is evicted; empty without a heartbeat of a
    binder.
    """

    campaign: str = ""
    """The running campaign and its progress; empty without one."""

    measured_at: float | None
    """The time of the last cycle of a collector."""

    evaluated_at: float | None
    """The time of the last evaluation or plan of the descheduler."""

    services: list[ServiceRow]
    unknown: list[Unknown]


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The moves that the descheduler would propose now."""

    problem: str = ""
    """Why there is no plan. The other fields are then empty, or those of the last plan."""

    planned_at: float | None = None
    considered: int = 0
    moves: list[PlannedMove] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    sentence: str = ""
    """How many pods are moved, what is won and what is risked; empty if none is moved."""

    gains_and_costs: dict[str, str] = {}
    """What each move gains and costs, as text, by `namespace/pod` of the move."""

    refusals: dict[str, str] = {}
    """Why the limits do not allow a move now, and when they will, by `namespace/pod` of the move."""

    dry_run_moves: int = 0
    """The number of dry-run moves. The loads in the plan count them as done."""

    waiting: int = 0
    """The number of hot nodes from which no move is proposed yet."""

    wait: float = 0.0
    """Seconds until the first move from one of these nodes may be proposed."""


class SavingsRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the nodes cost, and which of them the cluster could do without."""

    problem: str = ""
    """Why it is unknown. The other fields are then empty."""

    planned_at: float | None = None
    considered: int = 0
    """The number of nodes of the cluster."""

    emptiable: int = 0
    """How many of them could go."""

    pods: int = 0
    """How many pods would have to move for that."""

    currency: str = ""
    cost: float | None = None
    """What all nodes cost in a month of 730 hours; None if the price of none is known."""

    without_price: int = 0
    """The number of nodes whose price is unknown."""

    saved: float | None = None
    """What the nodes that could go cost in a month; None if the price of none is known."""

    hottest_before: float | None = None
    """The highest forecast load of any node in any hour (0..1 of the base); None if it is unknown."""

    hottest_after: float | None = None
    """The same without the nodes that could go."""


class LimitsRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The eviction ledger, and the limits in use according to the configuration of the running binders."""

    problem: str = ""
    """Why the ledger is unknown. The other fields are then empty."""

    evictions: str = ""
    """The state according to the ledger: `allowed`, `paused` or `closed`."""

    why: str = ""
    halved_until: float | None = None
    last_day: int | None = None
    dry_runs_last_day: int | None = None
    usage: list[LimitUsage] = []
    """The usage of at most 100 limits, the fullest first."""

    usage_of_dry_runs: bool = False
    """Whether `usage` is that of dry runs, which take nothing from the limits of evictions."""

    configuration: list[str] = []
    """Lines about the configurations of the running services, and about how these and the file of --config differ."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster and the server that the messages come from."""

    cluster: str
    """The cluster of the kubeconfig, and whether the bus belongs to it."""

    server: str
    problem: str = ""
    """Why no messages arrive; empty while connected."""


class Changes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed since the previous changes."""

    nodes: list[NodeRow] = []
    removed: list[str] = []
    """Names of nodes that no longer exist."""

    moves: list[MoveRow] = []
    points: list[SpreadPoint] = []
    summary: ClusterSummary | None = None
    plan: PlanRow | None = None
    savings: SavingsRow | None = None
    limits: LimitsRow | None = None
    connection: Connection | None = None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The load of every node at an earlier time: cpu and memory by node, 0..1; None is unknown."""

    at: float
    loads: dict[str, tuple[float | None, float | None]]


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node. Amounts are cores and bytes. None: the usage is unknown, or the pod has no request."""

    namespace: str
    pod: str
    workload: str
    node: str
    cpu: float | None
    memory: float | None
    cpu_requests: float | None
    memory_requests: float | None
    detached: bool = False
    """Whether a move without a gap has detached it from its workload, until its replacement is ready."""
