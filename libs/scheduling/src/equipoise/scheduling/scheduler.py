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
        """A number from 0 to 1, excluding 1."""
        ...


EXTENDER = "Extender"
"""The name of the plugin under which nodes that an extender refuses are reported."""


class ExtenderFailed(Exception):
    """The request to an extender that is not `ignorable` failed, which ends the attempt."""


class ExtenderFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the filter verb of an extender."""

    passed: Rows
    """The nodes that passed, in the order in which the extender returned them."""

    failed: Mapping[int, str] = {}
    """The reasons of refused nodes, by row. A node in neither `failed` nor `passed` is refused without a reason."""

    unresolvable: Mapping[int, str] = {}
    """The reasons of nodes that are refused regardless of which pods are removed, by row."""


class Extender(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler extender that is interested in the pod."""

    filter: Callable[[Rows], ExtenderFilter | None] | None = None
    """Returns which of these nodes may run the pod; None if the request failed and the extender is ignorable.

    Raises ExtenderFailed.
    """

    scores: Callable[[Rows], Ints | None] | None = None
    """Returns the score of each of these nodes; None if the request failed, which is ignored."""

    weight: int = 1
    max_score: int = 10
    """The highest possible score: 10 for the extenders of kube-scheduler."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a pod, and why."""

    node: str = ""
    """The node where the pod is to run; empty if there is none now."""

    feasible: Sequence[str] = ()
    """Nodes that were scored, in the order in which they were found."""

    scores: NodeScores | None = None
    """None if at most one node was feasible."""

    diagnosis: FilterDiagnosis | None = None
    """Which nodes were refused, and why."""

    status: PluginStatus | None = None
    """The reason, if there is no node."""

    preemption: PostFiltered | None = None
    """The decision of the PostFilter plugins, if there is no node."""

    state: CycleState | None = None
    """The data of plugins from this attempt, for `Framework.reserve` and the binding cycle. None if there is no
    node."""

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
        """The reason and number of the nodes that a PreFilter plugin excluded by name."""
        assert self.diagnosis is not None
        excluded = nodes - len(self.diagnosis.rows)
        return {self.status.reasons[0]: excluded} if self.status and self.status.reasons and excluded else {}


def feasible_nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """The number of feasible nodes after which the search ends. `percentage`: the setting percentageOfNodesToScore."""
    if nodes < 100:
        return nodes
    percentage = percentage or max(5, 50 - nodes // 125)  # the larger the cluster, the lower
    return min(nodes, max(100, nodes * percentage // 100))


def excluded_by_name(state: CycleState) -> PluginStatus:
    """The status of all nodes except those to which PreFilter plugins restrict the pod."""
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(state.restricted_by))}]")


class Scheduler:
    """Decides for one pod after the other. Its only state is the node at which the next search starts."""

    def __init__(self, framework: Framework, *, percentage_of_nodes_to_score: int = 0) -> None:
        self.framework = framework
        self.percentage = percentage_of_nodes_to_score
        self.next_start = 0
        """The index, in the order of the snapshot, of the node at which the next search starts."""

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
        """Decides about a pod. The caller then adds the pod to the node, or carries out the preemption.

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
            unexamined = PluginStatus() if names is None else excluded_by_name(state)
            return self._preempt(pod, snapshot, state, diagnosis, diagnosis.by_node(), unexamined)
        node_names = snapshot.names(feasible)
        if len(feasible) == 1:
            return Decision(node=node_names[0], feasible=node_names, diagnosis=diagnosis, state=state)
        scores = self.framework.score(state, pod, snapshot, feasible)
        total, scored = self._with_extenders(scores.total, feasible, extenders)
        # Without an extender, kube-scheduler breaks ties by the order of a heap; any of these nodes is correct.
        best = int(total.argmax())
        if scored:
            ties = (total == total[best]).nonzero()[0]
            best = int(ties[int(generator.random() * len(ties))])
        return Decision(node=node_names[best], feasible=node_names, scores=scores, diagnosis=diagnosis, state=state)

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
        nominated_row = snapshot.row(nominated.node_of(pod) or pod.pod.status.nominated_node_name)
        if nominated_row is not None and nominated_row in rows:
            # If the node that was nominated for this pod is feasible, no other node is searched.
            single = np.array([nominated_row], dtype=np.intp)
            diagnosis = self.framework.filter_with_nominated(state, pod, snapshot, single, nominated)
            if diagnosis.passed[0] and len(_pass_extenders(diagnosis, single, extenders)):
                return diagnosis, single
        diagnosis = self.framework.filter_with_nominated(state, pod, snapshot, rows, nominated)
        scored = self._scores or bool(extenders)
        searched = self._searched(rows, diagnosis.passed, len(snapshot.rows), scored=scored)
        return diagnosis, _pass_extenders(diagnosis, searched, extenders)

    def _searched(self, rows: Rows, passed: Flags, nodes: int, *, scored: bool) -> Rows:
        """The feasible nodes that the search finds, in its order. The search begins after the node at which the last
        one ended, and ends when enough feasible nodes are found.

        `nodes`: the number of nodes in the cluster. `scored`: whether nodes are scored; otherwise one is enough.
        """
        count = len(rows)
        if not count:
            return rows
        start = self.next_start % count
        feasible: Rows = passed.nonzero()[0]
        if start and (split := int(feasible.searchsorted(start))):
            feasible = np.concatenate((feasible[split:], feasible[:split]))
        limit = feasible_nodes_to_find(count, self.percentage) if scored else 1
        # The search ends at the first feasible node above the limit; otherwise it examines all nodes.
        examined = (int(feasible[limit]) - start) % count if len(feasible) > limit else count
        self.next_start = (self.next_start + examined) % nodes
        return rows.take(feasible[:limit])

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
    """The nodes that pass all extenders, which are called one after the other. Refusals are added to the diagnosis."""
    for extender in extenders:
        if extender.filter is None or not len(feasible):
            continue
        result = extender.filter(feasible)
        if result is None:
            continue
        refused = np.isin(diagnosis.rows, feasible) & ~np.isin(diagnosis.rows, result.passed)
        diagnosis.add(EXTENDER, _refusals(diagnosis.rows, refused, result))
        diagnosis.passed &= ~refused
        feasible = result.passed
    return feasible


def _refusals(rows: Rows, refused: Flags, result: ExtenderFilter) -> list[Refusal]:
    """One refusal per reason. The reason of a node that passed nevertheless is ignored."""
    by_reason: dict[tuple[str, Code], list[int]] = {}
    for row, reason in result.unresolvable.items():
        by_reason.setdefault((reason, Code.UNSCHEDULABLE_AND_UNRESOLVABLE), []).append(row)
    for row, reason in result.failed.items():
        if row not in result.unresolvable:
            by_reason.setdefault((reason, Code.UNSCHEDULABLE), []).append(row)
    return [
        Refusal(nodes=refused & np.isin(rows, group), reason=reason, code=code)
        for (reason, code), group in by_reason.items()
    ]
