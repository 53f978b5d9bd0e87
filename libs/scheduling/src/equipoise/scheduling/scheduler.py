"""One attempt to schedule a pod: filter, score, select, or preempt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis, counted, passed_all
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import PostFiltered, Refusal
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.scoring import NodeScores
from equipoise.scheduling.framework.status import Code, PluginStatus, unresolvable, unschedulable
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

NO_NODES = "no nodes available to schedule pods"


class RandomNumbers(Protocol):
    """numpy's Generator, or Python's random.Random."""

    def random(self) -> float:
        """0 ≤ … < 1."""
        ...


EXTENDER = "Extender"
"""The plugin that refuses nodes in the name of an extender."""


class ExtenderFailed(Exception):
    """A request to an extender that may not be ignored failed: the attempt ends."""


class ExtenderFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a filter verb."""

    passed: Rows
    """The nodes that passed, in the order of the extender."""

    failed: Mapping[int, str] = {}
    """Reasons, by row. A node that is missing here and in `passed` is refused without a reason."""

    unresolvable: Mapping[int, str] = {}
    """The reasons of nodes that are refused whichever pods are removed, by row."""


class Extender(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler extender that is interested in the pod."""

    filter: Callable[[Rows], ExtenderFilter | None] | None = None
    """Which of these nodes may run the pod. None as a result: the request failed, which is ignored.

    Raises ExtenderFailed.
    """

    scores: Callable[[Rows], Ints | None] | None = None
    """The score of each of these nodes; None as a result: the request failed, which is ignored."""

    weight: int = 1
    max_score: int = 10
    """The highest possible score: 10 for the extenders of kube-scheduler."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a pod, and why."""

    node: str = ""
    """The node where it is to run; empty: no node now."""

    feasible: Sequence[str] = ()
    """Nodes that were scored, in the order in which they were found."""

    scores: NodeScores | None = None
    """None: there was no choice."""

    diagnosis: FilterDiagnosis | None = None
    """Which nodes were refused, and why."""

    status: PluginStatus | None = None
    """The reason, if there is no node."""

    preemption: PostFiltered | None = None
    """The decision of the PostFilter plugins, if there is no node."""

    state: CycleState | None = None
    """The data of plugins from this attempt, if there is a node: for `Framework.reserve` and the binding cycle."""

    def message(self, nodes: int) -> str:
        """The text of kube-scheduler's event FailedScheduling, in a cluster of this many nodes."""
        if self.node:
            return ""
        if self.diagnosis is None:
            return "; ".join(self.status.reasons) if self.status else ""
        reasons = self.diagnosis.reasons()
        reasons.update(self._unexamined(nodes))
        text = f"0/{nodes} nodes are available:"
        if self.diagnosis.status is not None:
            text += f" {', '.join(self.diagnosis.status.reasons)}."
        elif reasons:
            text += f" {counted(reasons)}."
        if self.preemption is not None and (why := ", ".join(self.preemption.status.reasons)):
            text += f" {why}"
        return text

    def _unexamined(self, nodes: int) -> dict[str, int]:
        """Nodes that a PreFilter excluded by name."""
        assert self.diagnosis is not None
        excluded = nodes - len(self.diagnosis.rows)
        return {self.status.reasons[0]: excluded} if self.status and self.status.reasons and excluded else {}


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Number of feasible nodes that ends the search, of `nodes` in total. `percentage`: percentageOfNodesToScore."""
    if nodes < 100:
        return nodes
    return min(nodes, max(100, nodes * (percentage or max(5, 50 - nodes // 125)) // 100))


def excluded_by_name(state: CycleState) -> PluginStatus:
    """The status of the nodes other than those to which PreFilter plugins restrict the pod."""
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(state.restricted_by))}]")


class Scheduler:
    """Decides for one pod after the other. Its only state is the node at which the next search starts."""

    def __init__(self, framework: Framework, *, percentage_of_nodes_to_score: int = 0) -> None:
        self.framework = framework
        self.percentage = percentage_of_nodes_to_score
        self.next_start = 0
        """Place of the node, in the order of the snapshot, at which the next search starts."""

        self._scores = bool(framework.plugins("score"))

    def schedule(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        generator: RandomNumbers,
        *,
        nominated: Nominated | None = None,
        extenders: Sequence[Extender] = (),
    ) -> Decision:
        """Changes nothing: the caller adds the pod to the node, or carries out the preemption.

        A plugin that fails ends the attempt (status ERROR), as in kube-scheduler.
        """
        nominated = nominated if nominated is not None else Nominated()
        try:
            return self._schedule(pod, snapshot, generator, nominated, extenders)
        except PluginFailed as error:
            return Decision(status=PluginStatus(code=Code.ERROR, reasons=(str(error),), plugin=error.plugin))
        except ExtenderFailed as error:
            return Decision(status=PluginStatus(code=Code.ERROR, reasons=(str(error),), plugin=EXTENDER))

    def _schedule(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        generator: RandomNumbers,
        nominated: Nominated,
        extenders: Sequence[Extender],
    ) -> Decision:
        if not len(snapshot.rows):
            return Decision(status=unschedulable(NO_NODES))
        state = CycleState()
        status, names = self.framework.pre_filter(state, pod, snapshot)
        if not status.is_success:
            diagnosis = msgspec.structs.replace(passed_all(snapshot.rows[:0]), status=status)
            refused = {} if status.code != Code.UNSCHEDULABLE else dict.fromkeys(snapshot.rows.tolist(), status)
            return self._preempt(pod, snapshot, state, diagnosis, refused, status)
        diagnosis, feasible = self._feasible(pod, snapshot, state, names, nominated, extenders)
        if not len(feasible):
            absent = PluginStatus() if names is None else excluded_by_name(state)
            return self._preempt(pod, snapshot, state, diagnosis, diagnosis.by_node(), absent)
        found = snapshot.names(feasible)
        if len(feasible) == 1:
            return Decision(node=found[0], feasible=found, diagnosis=diagnosis, state=state)
        scores = self.framework.score(state, pod, snapshot, feasible)
        total, scored = self._with_extenders(scores.total, feasible, extenders)
        # Without an extender kube-scheduler breaks ties by the order of a heap; the first is as good as any.
        place = int(total.argmax())
        if scored:
            best = (total == total[place]).nonzero()[0]
            place = int(best[int(generator.random() * len(best))])
        return Decision(node=found[place], feasible=found, scores=scores, diagnosis=diagnosis, state=state)

    def _feasible(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        state: CycleState,
        names: frozenset[str] | None,
        nominated: Nominated,
        extenders: Sequence[Extender],
    ) -> tuple[FilterDiagnosis, Rows]:
        """The diagnosis of all nodes that may be searched, and the feasible ones that the search finds."""
        rows = snapshot.rows
        if names is not None:
            rows = np.array([row for row in map(snapshot.row, names) if row is not None], dtype=np.intp)
            rows.sort()
        own = snapshot.row(nominated.node_of(pod) or pod.pod.status.nominated_node_name)
        if own is not None and own in rows:
            # The node that was nominated for this pod is tried first, and alone.
            alone = np.array([own], dtype=np.intp)
            diagnosis = self.framework.filter_with_nominated(state, pod, snapshot, alone, nominated)
            if diagnosis.passed[0] and len(_pass_extenders(diagnosis, alone, extenders)):
                return diagnosis, alone
        diagnosis = self.framework.filter_with_nominated(state, pod, snapshot, rows, nominated)
        scored = self._scores or bool(extenders)
        searched = self._searched(rows, diagnosis.passed, len(snapshot.rows), scored=scored)
        return diagnosis, _pass_extenders(diagnosis, searched, extenders)

    def _searched(self, rows: Rows, passed: Flags, nodes: int, *, scored: bool) -> Rows:
        """The nodes that the search finds, in its order. It begins after the node at which the last search ended, and
        ends when there are enough.

        `nodes`: the number of all nodes of the cluster. If nodes are not `scored`, one is enough.
        """
        count = len(rows)
        if not count:
            return rows
        start = self.next_start % count
        found: Rows = passed.nonzero()[0]
        if start and (split := int(found.searchsorted(start))):
            found = np.concatenate((found[split:], found[:split]))
        limit = feasible_nodes_to_find(count, self.percentage) if scored else 1
        # The search ends at the first feasible node above the limit; otherwise it examines all nodes.
        examined = (int(found[limit]) - start) % count if len(found) > limit else count
        self.next_start = (self.next_start + examined) % nodes
        return rows.take(found[:limit])

    def _with_extenders(self, total: Ints, rows: Rows, extenders: Sequence[Extender]) -> tuple[Ints, bool]:
        """The totals with the scores of the extenders, and whether one of them scored the nodes."""
        scored = False
        for extender in extenders:
            scores = None if extender.scores is None else extender.scores(rows)
            if scores is not None:
                total = total + np.asarray(scores, dtype=np.int64) * extender.weight * 100 // extender.max_score
                scored = True
        return total, scored

    def _preempt(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        state: CycleState,
        diagnosis: FilterDiagnosis,
        refused: Mapping[int, PluginStatus],
        status: PluginStatus,
    ) -> Decision:
        preemption = None
        if self.framework.plugins("postFilter"):
            preemption = self.framework.post_filter(state, pod, snapshot, refused)
        return Decision(diagnosis=diagnosis, status=status, preemption=preemption)


def _pass_extenders(diagnosis: FilterDiagnosis, feasible: Rows, extenders: Sequence[Extender]) -> Rows:
    """The nodes that all extenders let pass, one after the other. The other refusals are added to the diagnosis."""
    for extender in extenders:
        if extender.filter is None or not len(feasible):
            continue
        found = extender.filter(feasible)
        if found is None:
            continue
        refused = np.isin(diagnosis.rows, feasible) & ~np.isin(diagnosis.rows, found.passed)
        diagnosis.add(EXTENDER, _refusals(diagnosis.rows, refused, found))
        diagnosis.passed &= ~refused
        feasible = found.passed
    return feasible


def _refusals(rows: Rows, refused: Flags, found: ExtenderFilter) -> list[Refusal]:
    """One per reason. A reason for a node that passes nevertheless does not count."""
    by_reason: dict[tuple[str, Code], list[int]] = {}
    for row, reason in found.unresolvable.items():
        by_reason.setdefault((reason, Code.UNSCHEDULABLE_AND_UNRESOLVABLE), []).append(row)
    for row, reason in found.failed.items():
        if row not in found.unresolvable:
            by_reason.setdefault((reason, Code.UNSCHEDULABLE), []).append(row)
    return [
        Refusal(nodes=refused & np.isin(rows, each), reason=reason, code=code)
        for (reason, code), each in by_reason.items()
    ]
