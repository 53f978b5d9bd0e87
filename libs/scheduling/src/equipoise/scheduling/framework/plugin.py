"""The protocols of plugins, one for each extension point. A plugin implements one or more of them.

A plugin returns arrays with its results for all nodes. A plugin for a single node (`filter_node`, `score_node`) works
as well, and is called for each node. A plugin stores data for one pod in the CycleState, between extension points, and
data that outlives a pod in its own attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

MAX_SCORE = 100
"""The highest score of a node, after normalize. The lowest is 0."""


class Plugin(Protocol):
    """A plugin, with its name in a KubeSchedulerConfiguration."""

    name: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that a plugin refuses for one reason."""

    nodes: Flags
    """Whether the node is refused, for each row in the call."""

    reason: str
    code: Code = Code.UNSCHEDULABLE


class PreFiltered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `pre_filter`."""

    status: PluginStatus = SUCCESS
    """The status of the pod. With SKIP, `filter`, `add_pod` and `remove_pod` are not called for it."""

    nodes: frozenset[str] | None = None
    """The names of the only possible nodes; None if all nodes are possible."""


SKIPPED = PreFiltered(status=SKIP)


@runtime_checkable
class PreEnqueue(Protocol):
    """Decides whether a pod enters the queue."""

    def pre_enqueue(self, pod: PodInfo) -> PluginStatus:
        """The status of the pod. With success, it enters the queue. Otherwise it waits outside of the queue until it is
        changed."""
        ...


@runtime_checkable
class QueueSort(Protocol):
    """The order of the queue."""

    def sort_key(self, pod: PodInfo, added_at: float) -> tuple[float, ...]:
        """Pods with lower keys are first. `added_at`: the time at which the pod entered the queue, in seconds."""
        ...


@runtime_checkable
class PreFilter(Protocol):
    """Is called once per attempt, before nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered: ...


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Updates a clone of the data of pre_filter while preemption tries other placements."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        """Updates the data for a pod that was added to the node. The snapshot already contains it."""
        ...

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        """Updates the data for a pod that was removed from the node. The snapshot no longer contains it."""
        ...


@runtime_checkable
class Filter(Protocol):
    """Decides which nodes cannot run the pod."""

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """The refused nodes. If several refusals contain a node, the last code other than UNSCHEDULABLE applies."""
        ...


@runtime_checkable
class FilterNode(Protocol):
    """The same as Filter, for one node."""

    def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus: ...


@runtime_checkable
class PostFilter(Protocol):
    """Decides what to do if no node was found."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]
    ) -> "PostFiltered": ...


class PostFiltered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `post_filter`."""

    status: PluginStatus
    node: str = ""
    """The nominated node, where the pod is expected once the victims have ended; empty if there is none."""

    victims: tuple[PodInfo, ...] = ()
    """The pods to delete."""

    clear_nomination: bool = False
    """Whether the earlier nomination of a node is removed."""


@runtime_checkable
class PreScore(Protocol):
    """Is called once per attempt, before nodes are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """`rows`: the feasible nodes. With SKIP, `score` is not called, so the score of every node is 0."""
        ...


@runtime_checkable
class Score(Protocol):
    """Scores how suitable the feasible nodes are."""

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The score of each of these nodes, 0..100. With `normalize`, scores may have any range."""
        ...


@runtime_checkable
class ScoreNode(Protocol):
    """The same as Score, for one node."""

    def score_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> int: ...


@runtime_checkable
class NormalizeScore(Protocol):
    """Converts the scores of the plugin to 0..100."""

    def normalize(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, scores: Ints
    ) -> Ints: ...


@runtime_checkable
class Reserve(Protocol):
    """Is called after a node was selected."""

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undoes `reserve`, because the pod will not be bound. It is also called if `reserve` of this plugin failed,
        and must not raise an error."""
        ...


@runtime_checkable
class Permit(Protocol):
    """Decides whether the pod may be bound now."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[PluginStatus, float]:
        """The status, and a timeout in seconds. With the status WAIT, the pod waits until it is allowed or rejected
        (`Handle.waiting_pods`), at most until the timeout."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """Does work that is necessary before the pod is bound."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus: ...


@runtime_checkable
class Bind(Protocol):
    """Binds the pod. Plugins are called until one does not return SKIP."""

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus: ...


@runtime_checkable
class PostBind(Protocol):
    """Is called after the pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None: ...
