"""What a plugin may implement. Each extension point is a protocol; a plugin implements one or more of them.

A plugin answers for all nodes at once, in arrays. One that is written for a single node (`filter_node`, `score_node`)
works as well, and is called for each node. A plugin keeps nothing between two pods except in its own attributes, and
nothing between two extension points except in the CycleState.
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
    """The name is that in a KubeSchedulerConfiguration."""

    name: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that a plugin refuses for one reason."""

    nodes: Flags
    """Whether each of the rows that were asked about is refused."""

    reason: str
    code: Code = Code.UNSCHEDULABLE


class PreFiltered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `pre_filter`."""

    status: PluginStatus = SUCCESS
    """SKIP: `filter`, `add_pod` and `remove_pod` are not called for this pod."""

    nodes: frozenset[str] | None = None
    """Names of the only nodes that are possible; None: no restriction."""


SKIPPED = PreFiltered(status=SKIP)


@runtime_checkable
class PreEnqueue(Protocol):
    """Decides whether a pod enters the queue."""

    def pre_enqueue(self, pod: PodInfo) -> PluginStatus:
        """Success: the pod enters the queue. Else it waits outside of the queue until it is changed."""
        ...


@runtime_checkable
class QueueSort(Protocol):
    """The order of the queue."""

    def sort_key(self, pod: PodInfo, added_at: float) -> tuple[float, ...]:
        """Pods with lower keys are first. `added_at`: seconds, when the pod entered the queue."""
        ...


@runtime_checkable
class PreFilter(Protocol):
    """Is called once per attempt, before nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered: ...


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Keeps what pre_filter wrote up to date while preemption tries other placements. Called on a clone."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        """`added` is on the node already."""
        ...

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        """`removed` is no longer on the node."""
        ...


@runtime_checkable
class Filter(Protocol):
    """Decides which nodes cannot run the pod."""

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """The refused nodes. If several refusals contain one, the last that is not UNSCHEDULABLE has its code."""
        ...


@runtime_checkable
class FilterNode(Protocol):
    """The same as Filter, for one node."""

    def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus: ...


@runtime_checkable
class PostFilter(Protocol):
    """Decides what to do after no node was found."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]
    ) -> "PostFiltered": ...


class PostFiltered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `post_filter`."""

    status: PluginStatus
    node: str = ""
    """Nominated: the pod is expected there once the victims are gone. Empty: none."""

    victims: tuple[PodInfo, ...] = ()
    """Pods to delete."""

    clear_nomination: bool = False
    """The node that was nominated before no longer is."""


@runtime_checkable
class PreScore(Protocol):
    """Is called once per attempt, before nodes are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """`rows`: the feasible nodes. SKIP: `score` is not called, which is as 0 for every node."""
        ...


@runtime_checkable
class Score(Protocol):
    """Scores how suitable the feasible nodes are."""

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The score of each of these nodes: 0..100, unless the plugin has `normalize`."""
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
        """Undoes `reserve`, because the pod is not bound after all. Also called for a plugin whose `reserve` failed;
        must not fail."""
        ...


@runtime_checkable
class Permit(Protocol):
    """Decides whether the pod may be bound now."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[PluginStatus, float]:
        """The status, and the seconds that the pod waits at most if it is WAIT, until it is allowed or rejected
        (`Handle.waiting_pods`)."""
        ...


@runtime_checkable
class PreBind(Protocol):
    """Work that has to be done before the pod is bound."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus: ...


@runtime_checkable
class Bind(Protocol):
    """Binds the pod; the first plugin that does not return SKIP has done it."""

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus: ...


@runtime_checkable
class PostBind(Protocol):
    """Is called after the pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None: ...
