"""Takes pods from nodes that are hot in CPU, memory or number of pods and sees cooler ones that can hold them.

After Koordinator's LowNodeLoad, with these differences: the load that counts is corrected for pods that came and went
and for moves under way; every move has a named target that it keeps below its marks, in place of Koordinator's common
budget (Σ over idle nodes of mark − usage), which may be there in sum while no single node has room; what a planned
move changes, at its target too, is seen by the next; only planned moves take room at a target; a pod without
measurement never moves.
"""

from collections.abc import Collection, Sequence

from equipoise.contracts.configuration.settings import Namespaces, Percent, Section, Thresholds
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.draft import Draft
from equipoise.descheduler.decisions.planning.hot_node_planner import Cooling, NodeOrder
from equipoise.descheduler.decisions.planning.judgement import SCOPES, Judgement
from equipoise.descheduler.decisions.planning.pools import IdleNodes, Members, NodePool, Weights, split
from equipoise.descheduler.decisions.planning.selection import PodSelector, Selector
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, Deviation
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod, Plan


class LowNodeLoad(Section, frozen=True, kw_only=True, tag_field="name", tag="low_node_load"):
    """Its fields are its settings. Marks are those of the shared section `thresholds`."""

    windows: tuple[str, ...] = ()
    """A node is hot (idle) when it is so over each of these; the first also predicts. Default: the shortest."""

    node_selector: Selector = Selector()
    """Other nodes are not looked at: neither source nor target."""

    pools: tuple[NodePool, ...] = ()
    """Groups of nodes with settings of their own. Pods stay in their group."""

    namespaces: Namespaces | None = None
    """Which namespaces this strategy may move pods of, of those that may lose pods at all. null: each."""

    pod_selectors: tuple[PodSelector, ...] = ()
    """Which pods it may move: those that one of them takes. Empty: each."""

    deviation: Deviation | None = None
    """Given: marks are distances from the mean of the node's pool instead of the shared thresholds.

    Idle nodes are then filled by others that are below their mark, too: these give to idle nodes, and elsewhere only
    pods that take at least `margin` points off them.
    """

    number_of_nodes: IdleNodes | None = None
    """Move pods only while more than so many nodes are idle: with none, the cluster as a whole is busy.

    -1: also then, as long as nodes between their marks can help. null: 0, and -1 where there is a deviation, as no
    level is busy to that.
    """

    node_order: NodeOrder = "weighted"
    """Which hot node is relieved first: that of the highest weighted load, or of the most memory, then CPU."""

    margin: Percent = 2.0
    """Points below its mark at which a hot node is left alone, so that it is not hot again at once."""

    target_mark: Percent = 50.0
    """A node that is not idle may be filled so far on the way from the low mark (0: not at all) to the high one (100).

    Between the marks a node is as it should be: it helps out, but is not brought to the edge. Unless, with a deviation,
    the node that is relieved stays hotter than it becomes: that levels both.
    """

    least_relief: Percent = 0.5
    """Points of its node's load that a move must at least take away to be worth it."""

    weights: Weights = Weights()

    def __post_init__(self) -> None:
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools must not have a name twice")

    def verdicts(self, fleet: Fleet) -> list[NodeClassification]:
        """Every node that it looks at as hot, idle, between or unknown, with its load over the first window."""
        return [entry for pool in self.members(fleet) for entry in self._judged(fleet, pool).verdicts()]

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        """Moves away from the hot nodes among `abnormal`, hottest first, until each is below its mark."""
        judged = [self._judged(fleet, pool) for pool in self.members(fleet)]
        if not any(pool.sources(scope, abnormal) for pool in judged for scope in SCOPES):
            return Plan(why="no node has been over its mark for long enough")
        draft = Draft(fleet, self.windows_of(fleet), production=any(pool.production is not None for pool in judged))
        for pool in judged:
            Cooling(pool, draft, self).cool(abnormal)
        return draft.plan("moves under way are enough")

    def windows_of(self, fleet: Fleet) -> Sequence[str]:
        """The windows that decide."""
        return self.windows or (fleet.windows[0],)

    def members(self, fleet: Fleet) -> list[Members]:
        """The pools that have nodes, with what applies to each."""
        groups = split(fleet.nodes, self.node_selector, self.pools)
        pools = [*self.pools, NodePool(name="", node_selector=Selector())]
        found = zip(pools, groups, strict=True)
        return [self._members_of(pool, group, fleet.thresholds) for pool, group in found if group]

    def ceilings(self, fleet: Fleet) -> dict[str, Ceilings]:
        """By name of the node: how far it may be filled at most, as whole and by production pods."""
        judged = [self._judged(fleet, pool) for pool in self.members(fleet)]
        return {
            node.name: Ceilings(
                node=pool.levels.ceiling, production={} if pool.production is None else pool.production.ceiling
            )
            for pool in judged
            for node in pool.members.nodes
        }

    def may_move(self, pod: MovablePod) -> str:
        """ "" when this strategy may move the pod, else which of its settings speaks against it."""
        if self.namespaces is not None and not self.namespaces.allow(pod.namespace, ""):
            return "its namespace is left out by the strategy"
        if self.pod_selectors and not any(chosen.selector.takes(pod.fit.labels) for chosen in self.pod_selectors):
            return "none of the strategy's podSelectors takes it"
        return ""

    def _judged(self, fleet: Fleet, members: Members) -> Judgement:
        return Judgement(members, self.windows_of(fleet), margin=self.margin / 100)

    def _members_of(self, pool: NodePool, nodes: Sequence[FleetNode], shared: Thresholds) -> Members:
        deviation = self.deviation if pool.deviation is None else pool.deviation
        deviation = None if deviation == "off" else deviation
        needed = self.number_of_nodes if pool.number_of_nodes is None else pool.number_of_nodes
        usual = 0 if deviation is None else -1
        return Members(
            pool=pool.name,
            nodes=nodes,
            thresholds=pool.thresholds(shared),
            deviation=deviation,
            weights=self.weights if pool.weights is None else pool.weights,
            number_of_nodes=usual if needed is None else needed,
        )
