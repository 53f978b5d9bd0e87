"""The cluster as strategies see it, and the plans they return."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.configuration.settings import BatchWorkWeight, Thresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.state.daily_usage import UsageForecast

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.descheduler.state.node_fit import NodeFit
    from equipoise.scheduling.model.pod_info import PodInfo


class IntentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many moves may be pending. The binder has the eviction limits; these only avoid intents it would refuse."""

    per_evaluation: int
    per_node: int
    per_workload: int


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a strategy."""

    now: float
    nodes: Sequence[ClusterNode]
    thresholds: Thresholds
    further: tuple[str, ...] = ()
    """The further resources with a threshold."""

    windows: Sequence[str]
    """Every configured window, shortest first."""

    limits: IntentLimits
    fit: Callable[[Sequence[ClusterNode]], "NodeFit"]
    """A working copy for these nodes, with all of their pods."""

    days: UsageForecast | None = None
    """Forecast of the next 24 hours; None when there is none."""

    batch_work_weight: BatchWorkWeight = BatchWorkWeight()
    """How much of the usage of batch work counts in the forecast."""

    require_pressure: bool = False
    """See `DeschedulerSettings`."""

    busy_workloads: Mapping[Workload, int] = {}
    """Number of pods with a pending move, by workload."""

    in_flight: int = 0
    """Intents without an outcome."""

    unscheduled: "Sequence[PodInfo]" = ()
    """Pods without a node."""

    triggers: Mapping[str, str] = {}
    """Why nothing more is moved for a waiting pod, by its trigger or by its UID (see `EvictionMove.trigger`)."""

    failed: Mapping[str, str] = {}
    """Why the rules cannot be applied to a pod, by its name. It gets an entry when its node's pods are read."""


class PodMove(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that should leave its node."""

    pod: MovablePod
    target: str
    reason: str
    sampled_at: float
    """The oldest sample that the move is based on."""

    makes_room_for: str = ""
    """`namespace/name` of the pod that takes its place; empty when the move has another purpose."""

    trigger: str = ""
    """See `EvictionMove.trigger`."""


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The moves that a strategy wants, those that it could not plan and, if there are none, the reason."""

    moves: Sequence[PodMove] = ()
    later: Sequence[PodMove] = ()
    """Moves for which `moves` have to make room first. A later evaluation plans and proposes them."""

    refused: Sequence[RefusedMove] = ()
    why: str = ""
