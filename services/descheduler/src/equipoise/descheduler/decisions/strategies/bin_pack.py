"""Empties the emptiest nodes of a pool onto its fullest ones, so that a cluster can shrink. Off by default.

After HighNodeUtilization of sigs.k8s.io/descheduler, with these differences: a node is sparse by what it really uses
and by what its pods request; a node is begun only when all of its pods have somewhere to go; every move has a named
target that stays clear of the mark from which low_node_load would empty it again. Nodes are not cordoned: something
must remove what is empty (an autoscaler), and the scheduler must pack, or it fills them anew (`target_load_packing`,
or `scorer.neutral` beside kube-scheduler's MostAllocated).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import MIN_GAP, ResourceThresholds, Section, Thresholds
from equipoise.contracts.load.correction import known
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.classification import present, within
from equipoise.descheduler.decisions.planning.draft import Draft
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, Array
from equipoise.descheduler.decisions.planning.pools import IdleNodes, Weights
from equipoise.descheduler.decisions.planning.selection import Selector
from equipoise.descheduler.decisions.planning.target_selection import Targets, fullest_target, targets_of
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, Levels, shares_of
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod, Plan, Resource

Move = tuple[MovablePod, FleetNode]


class BinPack(Section, frozen=True, kw_only=True, tag_field="name", tag="bin_pack"):
    """Its fields are its settings."""

    windows: tuple[str, ...] = ()
    """A node is sparse when it is so over each of these; the first also predicts. Default: the shortest."""

    node_selector: Selector = Selector()
    """The pool: other nodes are neither emptied nor filled."""

    below: ResourceThresholds = ResourceThresholds(cpu=20, memory=20)
    """A node at or below it in each of these resources, used and requested, is sparse: worth emptying."""

    headroom: Annotated[float, Meta(ge=MIN_GAP, le=100)] = 10.0
    """Points that a filled node stays below the high marks of `thresholds`, of production too."""

    number_of_nodes: IdleNodes = 0
    """Empty nodes only while more than so many are sparse."""

    weights: Weights = Weights()

    def __post_init__(self) -> None:
        if not shares_of(self.below):
            raise ValueError("below must have a mark for one resource at least (example: cpu: 20)")

    def verdicts(self, fleet: Fleet) -> list[NodeClassification]:
        """Every node of the pool as sparse, between or unknown."""
        nodes = self._pool(fleet)
        windows = self.windows_of(fleet)
        if not nodes:
            return []
        seen = present(nodes, windows, production=False)
        requested = np.array([_requested(node) for node in nodes])
        sparse = within(seen.most, self._marks)
        sparse[~within(requested, self._marks)] = False
        told = within(seen.most, dict.fromkeys(self._marks, np.inf))
        return [
            self._verdict(node, windows, seen.first[place], requested[place], sparse[place], told[place])
            for place, node in enumerate(nodes)
        ]

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        """Moves that empty the sparse nodes among `abnormal`, emptiest first, each only if it can be emptied whole."""
        verdicts = {entry.node: entry for entry in self.verdicts(fleet)}
        sparse = {name for name, entry in verdicts.items() if entry.state == "sparse"}
        nodes = self._pool(fleet)
        sources = [node for node in nodes if node.name in sparse and node.name in abnormal]
        if not sources:
            return Plan(why="no node has been sparse for long enough")
        levels, production = self._levels(fleet.thresholds)
        draft = Draft(fleet, self.windows_of(fleet), production=production is not None)
        if len(sparse) <= self.number_of_nodes:
            draft.refuse(None, f"{len(sparse)} sparse nodes, more than {self.number_of_nodes} are needed")
            return draft.plan("")
        filled = [node for node in nodes if node.name not in sparse]
        targets = targets_of(filled, draft.projection, levels, production, target_mark=1.0)
        requested = dict(zip(draft.projection.positions, draft.projection.requested, strict=True))
        for node in sorted(sources, key=lambda node: self._order(node, draft, requested)):
            self._empty(node, draft, targets, verdicts[node.name].why)
        return draft.plan("moves under way are enough")

    def windows_of(self, fleet: Fleet) -> Sequence[str]:
        """The windows that decide."""
        return self.windows or (fleet.windows[0],)

    def ceilings(self, fleet: Fleet) -> dict[str, Ceilings]:
        """By name of the node: how far it may be filled at most, as whole and by production pods."""
        levels, production = self._levels(fleet.thresholds)
        ceilings = Ceilings(node=levels.ceiling, production={} if production is None else production.ceiling)
        return {node.name: ceilings for node in self._pool(fleet)}

    @property
    def _marks(self) -> Mapping[Resource, float]:
        return shares_of(self.below)

    def _pool(self, fleet: Fleet) -> list[FleetNode]:
        return [node for node in fleet.nodes if self.node_selector.takes(node.fit.labels)]

    def _levels(self, thresholds: Thresholds) -> tuple[Levels, Levels | None]:
        """Up to where nodes are filled: as a whole, and by production pods if there is a mark for them."""

        def below(marks: ResourceThresholds) -> Levels:
            ceiling = {name: max(0.0, mark - self.headroom / 100) for name, mark in shares_of(marks).items()}
            return Levels(hot={}, ceiling=ceiling, idle={}, aim={})

        return below(thresholds.high), below(thresholds.prod_high) if shares_of(thresholds.prod_high) else None

    def _verdict(
        self, node: FleetNode, windows: Sequence[str], load: Array, requested: Array, sparse: bool, told: bool
    ) -> NodeClassification:
        between = NodeClassification(
            node=node.name, state="between", load=node.load(windows[0]), sampled_at=node.oldest_sample(windows)
        )
        if node.unknown or not told:
            why = node.unknown or f"no usage over {', '.join(windows)}"
            return msgspec.structs.replace(between, state="unknown", why=why)
        if not sparse:
            return between
        parts = [
            f"{name} usage({100 * load[column]:.2f}%) and requests({100 * requested[column]:.2f}%)"
            f"<=threshold({100 * self._marks[name]:.2f}%)"
            for column, name in enumerate(MEASURED)
            if name in self._marks
        ]
        why = "node is underutilized, " + ", ".join(parts)
        return msgspec.structs.replace(between, state="sparse", why=why)

    def _order(self, node: FleetNode, draft: Draft, requested: Mapping[str, Array]) -> tuple[int, float, str]:
        """Those that are being emptied first, then the emptiest."""
        weights, load = self.weights.shares(), draft.projection.load(node)
        cpu, memory = requested[node.name].tolist()
        asked: Mapping[Resource, float] = {"cpu": cpu, "memory": memory, "pods": 0.0}
        full = sum(weights[name] * (load.get(name, 0.0) + asked[name]) for name in self._marks)
        return -min(node.leaving, 1), full, node.name

    def _empty(self, node: FleetNode, draft: Draft, targets: Targets, reason: str) -> None:
        """Plan what may leave now, if everything can."""
        if node.source_refusal:
            draft.refuse(node, node.source_refusal)
            return
        leaving = [pod for pod in node.pods if not pod.belongs_to_node]
        for pod in leaving:
            why = pod.protection or ("" if _measured(pod) else "its usage is not known")
            if why:
                draft.stays(pod, f"{why}: its node cannot be emptied")
                return
        tried: list[Move] = []
        saved = draft.projection.saved()
        for pod in sorted(leaving, key=lambda pod: (-_size(pod, node), pod.namespace, pod.name)):
            found = fullest_target(pod, node, targets, draft.projection, weights=self._weighed())
            if found.target is None:
                draft.projection.restore(saved, [(tried_pod, target.name) for tried_pod, target in tried])
                draft.refuse(node, f"it cannot be emptied: {found.why}", pod)
                return
            draft.projection.move(pod, found.target.name)
            tried.append((pod, found.target))
        self._propose(node, draft, tried, reason)

    def _weighed(self) -> Mapping[Resource, float]:
        """The number of pods counts only where it has a mark."""
        return {name: weight for name, weight in self.weights.shares().items() if name != "pods"} | {
            "pods": self.weights.pods if "pods" in self._marks else 0.0
        }

    def _propose(self, node: FleetNode, draft: Draft, tried: Sequence[Move], reason: str) -> None:
        """What the limits leave of the moves. The others keep their room at their targets: their turn comes."""
        for pod, target in tried:
            if draft.room_from(node) <= 0:
                return
            if draft.room <= 0:
                draft.refuse(node, "as many moves as allowed are proposed or under way")
                return
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload is on the move", pod)
            else:
                draft.take(pod, node, target, reason, projected=True)


def _measured(pod: MovablePod) -> bool:
    return known(pod.usage.cpu) is not None and known(pod.usage.memory) is not None


def _size(pod: MovablePod, node: FleetNode) -> float:
    """Big pods first: they are the hardest to find room for."""
    asked, offered = pod.fit.requests, node.fit.allocatable
    return max((asked.get(name, 0.0) / offered[name] for name in ("cpu", "memory") if offered.get(name)), default=0.0)


def _requested(node: FleetNode) -> list[float]:
    """Share (0..1) of each resource that its pods ask for; all of what is not offered."""
    asked, offered = node.fit.requested, node.fit.allocatable
    counted = {"cpu": asked.get("cpu", 0.0), "memory": asked.get("memory", 0.0), "pods": float(node.pod_count())}
    return [counted[name] / offered[name] if offered.get(name) else 1.0 for name in MEASURED]
