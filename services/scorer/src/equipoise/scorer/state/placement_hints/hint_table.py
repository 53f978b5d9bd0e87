"""The hints of all workloads, from their points on all nodes.

One after the other, workloads choose their nodes with the load that the hints of all others will send there. So not
all of them choose the same nodes, and the pods of a burst between two updates are distributed. In a namespace with so
many workloads that one object cannot hold a hint of each, they share hints.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from equipoise.contracts.kubernetes.nodes.platforms import Platform
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod, WorkloadHint
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.scorer.decisions.arrays import Demand, Demands
from equipoise.scorer.decisions.headroom import fits
from equipoise.scorer.decisions.placement_hints.expected_pods import expected_pods
from equipoise.scorer.decisions.placement_hints.hint_nodes import HintNode, hint_node
from equipoise.scorer.decisions.placement_hints.sampling import targets_beside
from equipoise.scorer.decisions.placement_hints.selection import (
    Selection,
    joined,
    merged,
    no_nodes,
    select,
    spread,
    unchanged,
)
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.placement_hints.sharing import must_share, space_for_hints
from equipoise.scorer.decisions.placement_hints.terms import hint_for_replacements, workload_hint
from equipoise.scorer.state.placement_hints.node_constraints import NodeConstraints
from equipoise.scorer.state.placement_hints.node_snapshot import NodeSnapshot, node_snapshot
from equipoise.scorer.state.placement_hints.offered_hints import OfferedHints
from equipoise.scorer.state.placement_hints.score_table import Block, ScoreTable
from equipoise.scorer.state.placement_hints.workload_demands import WorkloadDemands
from equipoise.scorer.state.placement_hints.workload_pods import WorkloadPods
from equipoise.scorer.state.scoring_state import ScoringState

HINTED_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps.kruise.io", "CloneSet"),
        ("apps.kruise.io", "StatefulSet"),
        ("argoproj.io", "Rollout"),
        ("batch", "CronJob"),
        ("batch", "Job"),
    }
)
"""(group, kind). A controller of another kind might compare its pods with what it wrote, and create them again."""

_PODS_PER_PART = 0.5

_RECENT = 60.0
"""Seconds."""


class _Choice(msgspec.Struct, kw_only=True):
    """The nodes that are chosen for the workloads of a block."""

    selection: Selection
    hints: list[WorkloadHint | None]
    usage: Array
    """workloads × resources: of all pods that are expected until the next update."""


class HintTable:
    """The hints of all workloads. Times are arguments."""

    def __init__(self, scoring: ScoringState, settings: HintSettings) -> None:
        self._scoring = scoring
        self._settings = settings
        self._scores = ScoreTable(scoring.policy)
        self._demands = WorkloadDemands(scoring.nodes, scoring.policy.demand_chain)
        self._pods = WorkloadPods(max(_RECENT, settings.interval))
        self._nodes: dict[str, HintNode] = {}
        self._choices: dict[Block, _Choice] = {}
        self._hostnames: Mapping[str, str] = {}
        self._emptied: tuple[str, ...] = ()
        """Hostnames of the nodes that consolidation is emptying, which every hint avoids."""

        self._hints: Mapping[Workload, WorkloadHint] = {}
        self.problem = "no hints were computed yet"
        """Why there are no hints; empty when there are."""

    def on_placement(self, message: NodePlacement, placed: Sequence[PlacedPod], now: float) -> None:
        """Use a node's placement; `placed` are the pods that are new on it."""
        self._pods.on_placement(message, placed, now)
        if message.removed:
            self._nodes.pop(message.node, None)
        else:
            self._nodes[message.node] = hint_node(message)

    def hints(self, now: float) -> dict[Workload, WorkloadHint]:
        """The hints of the last update, with what is known of evictions now; none without sufficient data.

        First those of the workloads that most likely get pods next.
        """
        if self.problem:
            return {}
        found = {}
        for workload, (targets, vacated_nodes) in self._scoring.replacements.expected(now).items():
            if not _is_hinted(workload):
                continue
            hint = self._hints.get(workload)
            # The hostnames of both lists of nodes, as far as they are known.
            first, vacated = ([*filter(None, map(self._hostnames.get, nodes))] for nodes in (targets, vacated_nodes))
            vacated += self._emptied
            others = self._other_targets(workload, hint, {*first, *vacated})
            if replaced := hint_for_replacements(hint, first, others, vacated, self._settings):
                found[workload] = replaced
        return found | {workload: hint for workload, hint in self._hints.items() if workload not in found}

    def evicted_workloads(self, now: float) -> Collection[Workload]:
        """The workloads with recent evictions, or with evictions that are intended."""
        return self._scoring.replacements.expected(now).keys()

    def _other_targets(self, workload: Workload, hint: WorkloadHint | None, known: Collection[str]) -> list[str]:
        """Hostnames of the workload's best nodes, besides the `known` ones: so many that kube-scheduler most likely
        scores one of them.

        First those with the fewest pods of the workload, because kube-scheduler spreads its pods over the nodes.
        """
        best = [*dict.fromkeys(name for term in (hint.prefer if hint else ()) for name in term.hostnames)]
        best = [name for name in best if name not in known]
        pods = self._pods.on_nodes(workload)
        by_hostname = Counter({self._hostnames.get(node, ""): count for node, count in pods.items()})
        best.sort(key=lambda name: by_hostname[name])
        return best[: targets_beside(len(self._hostnames))]

    def update(self, now: float) -> Iterator[None]:
        """Compute all hints again, in steps."""
        self.problem = self._scoring.coverage_problem(now)
        if not self.problem and not len(self._scoring.nodes):
            self.problem = "the load of no node is known"
        if self.problem:
            self._scores.clear()
            self._choices, self._hints = {}, {}
            return
        emptied = self._scoring.emptied(now)
        self._use_emptied(emptied)
        snapshot = node_snapshot(self._scoring, self._nodes, emptied, now)
        yield
        self._use_names(snapshot)
        workloads = self._hinted_workloads()
        yield
        yield from self._scores.update(snapshot, workloads, partial(self._demand, now=now))
        yield from self._choose_all(snapshot, workloads, now)

    def _use_names(self, snapshot: NodeSnapshot) -> None:
        """Uses the columns of this snapshot, which differ when nodes were added or removed."""
        names = snapshot.nodes.names
        hostnames = dict(zip(names, snapshot.hostnames, strict=True))
        if any(self._hostnames.get(node, hostname) != hostname for node, hostname in hostnames.items()):
            self._choices = {}  # no hint may keep an old value of the label
        self._hostnames = hostnames
        if self._scores.names != names:
            columns = {name: column for column, name in enumerate(names)}
            # The new column of each old one. The entry at the end is found by column −1 (no node), which remains −1.
            moved = np.array([*(columns.get(name, -1) for name in self._scores.names), -1], np.intp)
            for choice in self._choices.values():
                before = choice.selection
                choice.selection = Selection(best=moved[before.best], grades=before.grades, worst=moved[before.worst])

    def _use_emptied(self, emptied: Iterable[str]) -> None:
        """Chooses the nodes of all hints again if other nodes are being emptied than before."""
        nodes = (self._nodes.get(name) for name in sorted(emptied))
        hostnames = tuple(node.hostname for node in nodes if node is not None and node.hostname)
        if hostnames != self._emptied:
            self._emptied, self._choices = hostnames, {}

    # workloads

    def _hinted_workloads(self) -> list[Workload]:
        known = dict.fromkeys((*self._pods.replicas, *self._scoring.nodes.messages.workloads))
        workloads = list(filter(_is_hinted, known))
        self._pods.retain(known)
        self._demands.retain(workloads)
        return workloads

    def _demand(self, workload: Workload, now: float) -> Demand:
        return self._demands.demand(workload, self._pods.latest.get(workload), now)

    # selection

    def _choose_all(self, snapshot: NodeSnapshot, workloads: Sequence[Workload], now: float) -> Iterator[None]:
        factor = self._settings.interval / self._pods.span
        counts = expected_pods(workloads, self._pods.replicas, self._pods.recent(now), factor)
        expected = dict(zip(workloads, counts.tolist(), strict=True))
        constraints = NodeConstraints(snapshot)
        yield from constraints.prepare(tuple(self._pods.latest.values()))
        platforms = dict(zip(snapshot.nodes.names, snapshot.platforms, strict=True))
        ready_platforms = self._pods.ready_platforms(platforms) if len({*snapshot.platforms}) > 1 else {}
        yield
        before = {block: self._choices[block] for block in self._scores.blocks if block in self._choices}
        self._choices = {}
        offered = self._offered(snapshot, workloads)
        sent = np.zeros((len(snapshot.hostnames), len(RESOURCES)))
        for choice in before.values():
            self._add(sent, choice.selection, choice.usage, 1.0)
        yield
        for block in self._scores.blocks:
            pods = np.array([expected[workload] for workload in block.workloads])
            previous = before.get(block) or self._no_choice(len(pods))
            usage = block.demands.usage[:, 0] * pods[:, np.newaxis]
            self._choices[block] = self._choose(
                block, previous, usage, _parts(pods), snapshot, constraints, ready_platforms, offered, sent
            )
            yield
        hints = {
            workload: hint
            for block, choice in self._choices.items()
            for workload, hint in zip(block.workloads, choice.hints, strict=True)
            if hint is not None
        }
        yield
        self._hints = {each: hints[each] for each in sorted(hints, key=lambda each: -expected[each])}

    def _choose(
        self,
        block: Block,
        before: _Choice,
        usage: Array,
        parts: Sequence[slice],
        snapshot: NodeSnapshot,
        constraints: NodeConstraints,
        ready_platforms: Mapping[Workload, Collection[Platform]],
        offered: OfferedHints,
        sent: Array,
    ) -> _Choice:
        """Chooses the nodes of each part of a block, with the load that the hints of all other workloads will send. A
        hint is kept unless other nodes are better by `min_change`.

        A workload whose candidates differ by less than `scorer.minSpread` gets no hint, or one that avoids only the
        nodes that are being emptied.
        """
        settings = self._settings
        candidates = snapshot.usable & _fit(block.demands, snapshot.headroom)
        candidates &= np.array(
            [
                constraints.allowed(self._pods.latest.get(workload), ready_platforms.get(workload, frozenset()))
                for workload in block.workloads
            ]
        )
        indistinguishable = spread(block.points, candidates) < self._scoring.settings.min_spread
        selections, hints = [], before.hints.copy()
        for part in parts:
            old = before.selection.part(part)
            self._add(sent, old, before.usage[part], -1.0)
            share = np.nan_to_num(sent / snapshot.nodes.base)
            points = block.points[part] - (block.slopes[part] @ share.T).astype(np.float32)
            selection = select(points, candidates[part], settings)
            selection.best[indistinguishable[part]], selection.worst[indistinguishable[part]] = -1, -1
            kept = unchanged(old, selection, points, candidates[part], settings)
            selection = merged(old, selection, kept)
            chosen = []
            for row, workload in enumerate(block.workloads[part]):
                rows, index = slice(row, row + 1), part.start + row
                offer = offered.choose(
                    workload.namespace, selection.part(rows), old.part(rows), points[row], candidates[index]
                )
                if offer.hint is None:
                    offer.hint = hints[index] if kept[row] else self._hint(offer.selection, snapshot)
                hints[index] = offer.hint
                chosen.append(offer.selection)
            selection = joined(chosen)
            self._add(sent, selection, usage[part], 1.0)
            selections.append(selection)
        return _Choice(selection=joined(selections), hints=hints, usage=usage)

    def _hint(self, selection: Selection, snapshot: NodeSnapshot) -> WorkloadHint | None:
        """The hint of a selection (one row)."""
        best, worst = (
            [snapshot.hostnames[column] for column in columns[0].tolist() if column >= 0]
            for columns in (selection.best, selection.worst)
        )
        grades = selection.grades[0, : len(best)].tolist()
        return workload_hint(best, grades, [*self._emptied, *worst], self._settings)

    def _offered(self, snapshot: NodeSnapshot, workloads: Sequence[Workload]) -> OfferedHints:
        """No hints yet, for the namespaces with so many workloads that these must share hints."""
        name_bytes = np.array([len(name) + 1 for name in snapshot.hostnames], np.intp)
        counts = Counter(workload.namespace for workload in workloads)
        space = {
            name: space_for_hints(count)
            for name, count in counts.items()
            if must_share(count, name_bytes, self._settings)
        }
        return OfferedHints(space, name_bytes, self._settings)

    def _no_choice(self, workloads: int) -> _Choice:
        """No nodes, except those that every hint avoids."""
        hint = workload_hint([], [], self._emptied, self._settings)
        usage = np.zeros((workloads, len(RESOURCES)))
        return _Choice(selection=no_nodes(workloads), hints=[hint] * workloads, usage=usage)

    def _add(self, sent: Array, selection: Selection, usage: Array, sign: float) -> None:
        """Adds the load that the hints of these workloads will send. A node one grade lower gets half as many pods,
        because the other scores of kube-scheduler count, too."""
        there = selection.best >= 0
        parts = np.where(there, np.exp2(selection.grades - self._settings.grades), 0.0)
        parts *= sign / np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
        for resource in range(len(RESOURCES)):
            amount = (parts * usage[:, resource, np.newaxis])[there]
            sent[:, resource] += np.bincount(selection.best[there], weights=amount, minlength=len(sent))


def _parts(pods: Array) -> list[slice]:
    """Successive workloads that get `_PODS_PER_PART` pods together: they choose without knowing of one another."""
    number = (np.cumsum(pods) / _PODS_PER_PART).astype(np.intp)
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist()]
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], len(pods)], strict=True)]


def _is_hinted(workload: Workload) -> bool:
    return (workload.group, workload.kind) in HINTED_KINDS


def _fit(demands: Demands, headroom: Array) -> Flags:
    """pods × nodes. A pod whose requests are not known requests what it uses; one of a band has those of its band."""
    requests = np.array([each.requests for each in demands.each])
    unknown: Flags = np.logical_not(requests.any(axis=1))
    unknown[demands.of_bands] = False
    requests[unknown] = demands.usage[unknown, 0]
    return fits(headroom, requests)
