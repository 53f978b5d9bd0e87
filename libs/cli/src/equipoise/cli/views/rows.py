"""What the live views show: nodes, moves, the spread over time, services, and what is unknown."""

import msgspec

from equipoise.binder.decisions.status import LimitUsage
from equipoise.contracts.messages.descheduling import NodeState, RefusedMove
from equipoise.contracts.messages.plan import PlannedMove
from equipoise.contracts.messages.values.resources import Resources


class NodeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node. As JSON an array in this order: thousands of them are sent at once."""

    node: str
    cpu: float | None = None
    """Load in the shortest window, 0..1 of the base: of a node in the plan as there, otherwise as measured."""

    memory: float | None = None
    unknown: str = ""
    """Why the load of a resource is unknown; empty when both are known."""

    cpu_requests: float | None = None
    """Sum of the requests of its pods, 0..1 of the allocatable amount; None until its placement is received."""

    memory_requests: float | None = None
    pods: int | None = None
    state: NodeState | None = None
    """The state in the last evaluation or plan, the most urgent of all strategies; None if the node was in none."""

    set_apart: str = ""
    """Why the scheduler places no ordinary pods on it: it does not count for the spread."""


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
    outcome: str = ""
    """Empty: there is none yet. `unknown`: the intent has expired, and no outcome was received."""

    detail: str = ""
    limit: str = ""
    settled_at: float | None = None
    retry_at: float | None = None
    replacement: str = ""
    placed_on: str = ""
    """The node of the replacement; empty: not placed, or not known yet."""

    reduced: bool | None = None
    """Whether the node's load fell as expected; None: not measured yet."""


class SpreadPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The loads of all nodes at one time, 0..1. None: fewer than two nodes are known."""

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
    """High thresholds, 0..1; None: none, or not received."""

    evictions: str
    """What binders report: `real`, `dry run`, why nothing; empty: no heartbeat of a binder."""

    measured_at: float | None
    """The last cycle of a collector."""

    evaluated_at: float | None
    """The last evaluation of the descheduler, or its last plan."""

    services: list[ServiceRow]
    unknown: list[Unknown]


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The moves that the descheduler would propose now."""

    problem: str = ""
    """Why there is no plan; then the other fields are empty, or of the last one."""

    planned_at: float | None = None
    considered: int = 0
    moves: list[PlannedMove] = []
    refused: list[RefusedMove] = []
    why: dict[str, str] = {}
    refusals: dict[str, str] = {}
    """Why the limits do not allow a move now, and when they will, by `namespace/pod` of the move."""

    dry_run_moves: int = 0
    """Moves of dry runs: the loads in the plan count them as done."""

    waiting: int = 0
    """Hot nodes from which nothing is proposed yet."""

    wait: float = 0.0
    """Seconds until the first of them may be proposed."""


class LimitsRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The eviction ledger: limits in use, by the configuration that binders run with."""

    problem: str = ""
    """Why the ledger is unknown; then the other fields are empty."""

    evictions: str = ""
    """`allowed`, `paused` or `closed`, by the ledger alone."""

    why: str = ""
    halved_until: float | None = None
    last_day: int | None = None
    dry_runs_last_day: int | None = None
    usage: list[LimitUsage] = []
    """The fullest first, at most 100."""

    usage_of_dry_runs: bool = False
    """Whether `usage` is that of dry runs, which take nothing from the limits of evictions."""

    configuration: list[str] = []
    """What services run with, and how they or --config differ: a line each."""


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
    limits: LimitsRow | None = None
    connection: Connection | None = None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The load of every node at an earlier time: cpu and memory by node, 0..1; None is unknown."""

    at: float
    loads: dict[str, tuple[float | None, float | None]]


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node: cores and bytes; None is unknown, of requests: not given."""

    namespace: str
    pod: str
    workload: str
    node: str
    cpu: float | None
    memory: float | None
    cpu_requests: float | None
    memory_requests: float | None
