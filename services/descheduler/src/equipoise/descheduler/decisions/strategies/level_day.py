"""Evens out the forecast day: moves pods so that the 24-hour load of every node, CPU and memory, is the cluster's.

`low_node_load` relieves nodes that are hot now. This strategy uses the daily profiles of workloads, and the current
load as far as profiles are not trusted. The gain of a move is the reduction of the sum of the squared distances
between the nodes and the cluster.

An hour counts only if it was measured on most nodes; with fewer than 20 measured hours nothing is planned. A node or
pod that was not measured in an hour that counts takes no part (docs/decisions/0048).

Of batch work only a part counts (`load.batchWorkWeight`), and it is not moved: it
ends within hours. Where memory is almost fully requested, single moves find no target. Then two moves
are planned, the first of which makes room for the second. The second one is proposed when the first one is done.

Planned on a trace of 100 nodes (Alibaba 2018, 82 % of the memory requested) with 10 % of the pods moved: single moves
leave a spread of 60 percentage points, pairs of moves 25 to 30.
"""

from collections.abc import Collection, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Percent, Section, Share
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.planning.day_planner import DayPlanner
from equipoise.descheduler.decisions.planning.day_pool import DayPool
from equipoise.descheduler.decisions.planning.pools import Selector, Weight
from equipoise.descheduler.decisions.planning.thresholds import shares_of
from equipoise.descheduler.state.draft import PlanDraft
from equipoise.descheduler.state.projection import Projection


class DayWeights(Section, frozen=True, kw_only=True):
    """How much a squared percentage point of each resource counts."""

    cpu: Weight = 1.0
    memory: Weight = 0.1

    def __post_init__(self) -> None:
        if not self.cpu and not self.memory:
            raise ValueError("weights needs at least one above 0")


class LevelDay(Section, frozen=True, kw_only=True, tag_field="name", tag="level_day"):
    """The strategy `level_day` and its settings."""

    windows: tuple[str, ...] = ()
    """Windows of the current load. The first one predicts it. Default: the shortest."""

    node_selector: Selector = Selector()
    """The nodes that are evened out. Others are neither source nor target, and do not count for the mean."""

    threshold: Percent = 3.0
    """A node is hot when its day is this many points above the cluster's: root mean square over hours and resources."""

    current_load_weight: Share = 0.0
    """Weight of the current load; the forecast day has the remainder. Use 0.5 or more where days differ from each
    other. Where days are alike, that makes three times as many moves, because moves then follow the load of every hour.
    """

    min_gain: Annotated[float, Meta(ge=0)] = 15.0
    """Least reduction of the sum of squared distances by a move, in squared points: 11 is the reduction of a node that
    comes from 6 to 5 points above the cluster.
    """

    max_above_mean: Percent = 15.0
    """A node may be filled up to this many points above the cluster's load of an hour if that is more than its high
    threshold, so that a busy cluster is evened out too. It is never filled above 95 %, except up to the load of the
    source.
    """

    paired_moves: bool = True
    """Whether a pod may be moved so that another fits in its place."""

    weights: DayWeights = DayWeights()

    @property
    def levels(self) -> bool:
        """True: days without a hot hour are evened out, too."""
        return True

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The windows that the strategy uses."""
        return self.windows or (cluster.windows[0],)

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node as hot, idle, between or unknown, with its load over the first window."""
        pool = self._pool(cluster, Projection(cluster, self.windows_of(cluster)[0]), with_room=False)
        return [pool.classification(index) for index, node in enumerate(cluster.nodes) if self.selects(node)]

    def selects(self, node: ClusterNode) -> bool:
        return self.node_selector.matches(node.labels)

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """The moves with the largest gain from hot nodes among `abnormal`, and moves that make room for them."""
        cluster = msgspec.structs.replace(cluster, nodes=sorted(cluster.nodes, key=lambda node: node.name))
        limited = bool(shares_of(cluster.thresholds.prod_high))
        draft = PlanDraft(cluster, self.windows_of(cluster), production=limited)
        pool = self._pool(cluster, draft.projection, with_room=True)
        if pool.unmeasured:
            return MovePlan(why=f"not planned: {pool.unmeasured}")
        above = pool.hot()
        if not above:
            return MovePlan(why=f"no node's day is above the cluster's{pool.not_measured_yet()}")
        hot = [index for index in above if cluster.nodes[index].name in abnormal]
        if not hot:
            return MovePlan(why="no node's day has been above the cluster's for long enough")
        return DayPlanner(
            draft, pool, hot,
            window=self.windows_of(cluster)[0], min_gain=self.min_gain, max_above_mean=self.max_above_mean,
            paired_moves=self.paired_moves,
        ).plan()  # fmt: skip

    def _pool(self, cluster: ClusterView, projection: Projection, *, with_room: bool) -> DayPool:
        return DayPool(
            cluster, projection,
            window=self.windows_of(cluster)[0], selects=self.selects, threshold=self.threshold,
            current_load_weight=self.current_load_weight, weights=(self.weights.cpu, self.weights.memory),
            with_room=with_room,
        )  # fmt: skip
