"""Moves all pods of the emptiest nodes of a pool to its fullest ones, so that a cluster can shrink. Off by default.

After HighNodeUtilization of sigs.k8s.io/descheduler, with these differences. A node is sparse by its real usage and by
the requests of its pods. A node is emptied only when all of its pods have a target. Every move has a named target that
stays well below the threshold above which low_node_load would move its pods away again. Nodes are not cordoned: an
autoscaler must remove empty ones, and the scheduler must pack pods, or it fills them again (`target_load_packing`, or
`scorer.neutral` with kube-scheduler's MostAllocated).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import MIN_GAP, ResourceThresholds, Section
from equipoise.contracts.load.correction import known
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.numeric import Array, np
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.classification import current_loads, within
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED
from equipoise.descheduler.decisions.planning.pools import ComparisonWeights, IdleNodes, Selector
from equipoise.descheduler.decisions.planning.target_selection import TargetNodes, fullest_target, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, filling, shares_of
from equipoise.descheduler.state.draft import MOVES_OF_NODE, PlanDraft

TriedMove = tuple[MovablePod, ClusterNode]


class BinPack(Section, frozen=True, kw_only=True, tag_field="name", tag="bin_pack"):
    """The strategy `bin_pack` and its settings."""

    windows: tuple[str, ...] = ()
    """A node is sparse if it is sparse over each of these windows. The first one also predicts the load. Default: the
    shortest."""

    node_selector: Selector = Selector()
    """The pool: other nodes are neither emptied nor filled."""

    thresholds: ResourceThresholds = ResourceThresholds(cpu=20, memory=20)
    """A node at or below them in each of these resources, by usage and by requests, is sparse: it should be emptied."""

    headroom: Annotated[float, Meta(ge=MIN_GAP, le=100)] = 10.0
    """Points that a filled node stays below the high thresholds of the shared section, those of production included."""

    number_of_nodes: IdleNodes = 0
    """Empty nodes only while more than this many are sparse."""

    weights: ComparisonWeights = ComparisonWeights()

    def __post_init__(self) -> None:
        if not shares_of(self.thresholds):
            raise ValueError("thresholds must have one resource at least (example: cpu: 20)")

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node as sparse, between or unknown."""
        nodes = self._pool(cluster)
        windows = self.windows_of(cluster)
        if not nodes:
            return []
        loads = current_loads(nodes, windows, production=False)
        requested = np.array([_requested(node) for node in nodes])
        sparse = within(loads.most, self._sparse)
        sparse[~within(requested, self._sparse)] = False
        measured = within(loads.most, dict.fromkeys(self._sparse, np.inf))
        return [
            self._classification(node, windows, loads.first[index], requested[index], sparse[index], measured[index])
            for index, node in enumerate(nodes)
        ]

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves that empty the sparse nodes among `abnormal`, the emptiest first. Only nodes that can be emptied have
        moves."""
        classifications = {item.node: item for item in self.classify(cluster)}
        sparse = {name for name, item in classifications.items() if item.state == "sparse"}
        nodes = self._pool(cluster)
        sources = [node for node in nodes if node.name in sparse and node.name in abnormal]
        if not sources:
            return MovePlan(why=f"no node {'has been sparse for long enough' if sparse else 'is sparse'}")
        applied, production = filling(cluster.thresholds, self.headroom)
        draft = PlanDraft(cluster, self.windows_of(cluster), production=production is not None)
        if len(sparse) <= self.number_of_nodes:
            draft.refuse(None, f"{len(sparse)} sparse nodes, more than {self.number_of_nodes} are needed")
            return draft.plan("")
        filled = [node for node in nodes if node.name not in sparse]
        targets = target_nodes(filled, draft.projection, applied, production, target_threshold=1.0)
        requested = dict(zip(draft.projection.positions, draft.projection.fit.requested, strict=True))
        for node in sorted(sources, key=lambda node: self._order(node, draft, requested)):
            self._empty(node, draft, targets, classifications[node.name].why)
        return draft.plan("the pending moves are sufficient")

    @property
    def levels(self) -> bool:
        """True: nodes that are used little are emptied."""
        return True

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The windows that the strategy uses."""
        return self.windows or (cluster.windows[0],)

    def ceilings(self, cluster: ClusterView) -> dict[str, Ceilings]:
        """The load up to which each node may be filled, as a whole and by production pods; by name."""
        applied, production = filling(cluster.thresholds, self.headroom)
        ceilings = Ceilings(node=applied.ceiling, production={} if production is None else production.ceiling)
        return {node.name: ceilings for node in self._pool(cluster)}

    @property
    def _sparse(self) -> Mapping[Resource, float]:
        return shares_of(self.thresholds)

    def _pool(self, cluster: ClusterView) -> list[ClusterNode]:
        return [node for node in cluster.nodes if self.node_selector.matches(node.labels)]

    def _classification(
        self, node: ClusterNode, windows: Sequence[str], load: Array, requested: Array, sparse: bool, measured: bool
    ) -> NodeClassification:
        between = NodeClassification(
            node=node.name, state="between", load=node.load(windows[0]), sampled_at=node.oldest_sample(windows)
        )
        if node.unknown or not measured:
            why = node.unknown or f"no usage over {', '.join(windows)}"
            return msgspec.structs.replace(between, state="unknown", why=why)
        if not sparse:
            return between
        parts = [
            f"{name} {100 * load[column]:.1f}% used and {100 * requested[column]:.1f}% requested, not above "
            f"{round(100 * self._sparse[name], 2):g}%"
            for column, name in enumerate(MEASURED)
            if name in self._sparse
        ]
        why = "node is sparse: " + "; ".join(parts)
        return msgspec.structs.replace(between, state="sparse", why=why)

    def _order(self, node: ClusterNode, draft: PlanDraft, requested: Mapping[str, Array]) -> tuple[int, float, str]:
        """Nodes that are being emptied first, then the emptiest."""
        weights, load = self.weights.shares(), draft.projection.load(node)
        cpu, memory = requested[node.name].tolist()
        share: Mapping[Resource, float] = {"cpu": cpu, "memory": memory, "pods": 0.0}
        full = sum(weights[name] * (load.get(name, 0.0) + share[name]) for name in self._sparse)
        return -min(node.leaving, 1), full, node.name

    def _empty(self, node: ClusterNode, draft: PlanDraft, targets: TargetNodes, reason: str) -> None:
        """Plan the moves that are allowed now, if all pods have a target."""
        if node.source_refusal:
            draft.refuse(node, node.source_refusal)
            return
        leaving = [pod for pod in node.pods if not pod.belongs_to_node]
        for pod in leaving:
            why = pod.protection or ("" if _measured(pod) else "its usage is not known")
            if why:
                draft.protect(pod, f"{why}: its node cannot be emptied")
                return
        tried: list[TriedMove] = []
        saved = draft.projection.saved()
        for pod in sorted(leaving, key=lambda pod: (-_size(pod, node), pod.namespace, pod.name)):
            choice = fullest_target(pod, node, targets, draft.projection, weights=self._applied_weights())
            if choice.target is None:
                draft.projection.restore(saved, [tried_pod for tried_pod, _ in tried])
                draft.refuse(node, f"it cannot be emptied: {choice.why}", pod)
                return
            draft.projection.move(pod, choice.target.name)
            tried.append((pod, choice.target))
        self._propose(node, draft, tried, reason)

    def _applied_weights(self) -> Mapping[Resource, float]:
        """The number of pods counts only where it has a threshold."""
        return {**self.weights.shares(), "pods": self.weights.pods if "pods" in self._sparse else 0.0}

    def _propose(self, node: ClusterNode, draft: PlanDraft, tried: Sequence[TriedMove], reason: str) -> None:
        """The moves that the limits allow. The others keep their capacity on the targets for later evaluations."""
        for pod, target in tried:
            if draft.room_from(node) <= 0:
                return
            if draft.room <= 0:
                draft.refuse(node, MOVES_OF_NODE)
                return
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload moves first", pod)
            else:
                draft.add(pod, node, target, reason, projected=True)


def _measured(pod: MovablePod) -> bool:
    return known(pod.usage.cpu) is not None and known(pod.usage.memory) is not None


def _size(pod: MovablePod, node: ClusterNode) -> float:
    """The largest share of the node that the pod requests. Large pods come first: they fit on the fewest targets."""
    requests, offered = pod.info.requests, node.allocatable
    amounts = {"cpu": requests.get("cpu", 0) / 1_000, "memory": float(requests.get("memory", 0))}
    return max((amount / offered[name] for name, amount in amounts.items() if offered.get(name)), default=0.0)


def _requested(node: ClusterNode) -> list[float]:
    """Share (0..1) of each resource that its pods request; 1 of a resource that it does not have."""
    requested, offered = node.requested, node.allocatable
    amounts = {
        "cpu": requested.get("cpu", 0.0), "memory": requested.get("memory", 0.0), "pods": float(node.pod_count)
    }  # fmt: skip
    return [amounts[name] / offered[name] if offered.get(name) else 1.0 for name in MEASURED]
