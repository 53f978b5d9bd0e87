"""The least disruptive set of pods that leaves a node so that a waiting pod has room."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, islice

import msgspec

from equipoise.contracts.load.correction import known
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.target_selection import TargetChoice, TargetNodes, least_loaded_target
from equipoise.descheduler.decisions.room.disruption import Pods, disruption
from equipoise.descheduler.decisions.room.missing import WholeAmounts
from equipoise.descheduler.state.draft import MOVES_OF_ALL, MOVES_OF_NODE, PlanDraft

MAX_SETS = 10_000
"""The number of sets of one size that are compared."""

MAX_TRIED = 20
"""The number of sets of several pods of one size for which targets are searched."""

MoveSet = tuple[tuple[MovablePod, ClusterNode], ...]
"""Pods, each with its target."""


class FoundSet(msgspec.Struct, frozen=True, kw_only=True):
    """The moves, or why there are none."""

    moves: MoveSet = ()
    why: str = ""


class RoomSearch:
    """Searches sets of pods that leave one node. The draft is changed meanwhile, then restored."""

    def __init__(self, draft: PlanDraft, targets: TargetNodes, node: ClusterNode, *, most: int) -> None:
        """`most`: the number of pods that may be moved for one waiting pod."""
        self._draft = draft
        self._targets = targets
        self._node = node
        self._most = most
        self._choices: dict[str, TargetChoice] = {}
        """The target of each pod if it is the only one that moves, by UID."""

    def smallest(
        self,
        missing: WholeAmounts,
        *,
        staying: Collection[str],
        priority: int,
        accepts: Callable[[], bool] = lambda: True,
    ) -> FoundSet:
        """The set with the fewest pods that together request what is missing; see `disruption` for equal sizes.

        Each pod has a target on which it fits after the moves of the others. `staying`: UIDs of pods that do not leave.
        Those with a pending move leave anyway, and are no part of a set. `priority`: that of the waiting pod.
        `accepts`: whether the waiting pod has room once the draft has the moves.
        """
        most = min(self._most, self._draft.room, self._draft.room_from(self._node))
        if most <= 0:
            return FoundSet(why=MOVES_OF_ALL if self._draft.room <= 0 else MOVES_OF_NODE)
        excluded = {*staying, *self._node.going}
        movable = [
            pod for pod in self._node.pods if pod.uid not in excluded and self._may_leave(pod, missing, priority)
        ]
        for size in range(1, most + 1):
            for pods in self._sets(movable, missing, size):
                moves = self._with_targets(pods, accepts)
                if moves:
                    return FoundSet(moves=moves)
        what = "pod" if most == 1 else f"set of at most {most} pods"
        return FoundSet(why=f"no {what} of {self._node.name} can be moved to free it")

    def _may_leave(self, pod: MovablePod, missing: WholeAmounts, priority: int) -> bool:
        if not any(pod.info.request(name) > 0 for name in missing):
            return False
        why = pod.protection
        if not why and (known(pod.usage.cpu) is None or known(pod.usage.memory) is None):
            why = "its usage is not known"
        if not why and not pod.without_gap and pod.info.priority > priority:
            why = f"its priority {pod.info.priority} is above that of the pod that waits for room ({priority})"
        if why:
            self._draft.protect(pod, why)
        return not why

    def _sets(self, movable: Sequence[MovablePod], missing: WholeAmounts, size: int) -> Iterator[Pods]:
        """The sets of this size that free what is missing and contain no unnecessary pod, the least disruptive first.

        For a set of several pods, each of them has a target if it is the only one that moves.
        """
        now = self._draft.cluster.now
        by_disruption = sorted(movable, key=lambda pod: disruption((pod,), now))
        if size > 1:
            by_disruption = [pod for pod in by_disruption if self._choice(pod).target is not None]
        sets = [
            pods
            for pods in islice(combinations(by_disruption, size), MAX_SETS)
            if frees(pods, missing)
            and not any(frees(pods[:index] + pods[index + 1 :], missing) for index in range(size))
            and not self._too_many_of_a_workload(pods)
        ]
        sets.sort(key=lambda pods: disruption(pods, now))
        return islice(sets, None if size == 1 else MAX_TRIED)

    def _too_many_of_a_workload(self, pods: Pods) -> bool:
        for index, pod in enumerate(pods):
            if self._draft.busy(pod, pods[:index]):
                self._draft.refuse(self._node, "another pod of its workload moves first", pod)
                return True
        return False

    def _choice(self, pod: MovablePod) -> TargetChoice:
        if pod.uid not in self._choices:
            choice = self._choices[pod.uid] = self._target(pod)
            if choice.target is None:
                self._draft.refuse(self._node, choice.why, pod)
        return self._choices[pod.uid]

    def _target(self, pod: MovablePod) -> TargetChoice:
        return least_loaded_target(pod, self._node, self._targets, self._draft.projection, hot=(), weights={})

    def _with_targets(self, pods: Pods, accepts: Callable[[], bool]) -> MoveSet:
        """The pods with their targets, each after the moves of those before it; empty if one has none."""
        projection = self._draft.projection
        saved = projection.saved()
        moves: list[tuple[MovablePod, ClusterNode]] = []
        try:
            for index, pod in enumerate(pods):
                choice = self._choice(pod) if index == 0 else self._target(pod)
                if choice.target is None:
                    return ()
                projection.move(pod, choice.target.name)
                moves.append((pod, choice.target))
            return tuple(moves) if accepts() else ()
        finally:
            projection.restore(saved, [pod for pod, _ in moves])


def frees(pods: Pods, missing: WholeAmounts) -> bool:
    """Whether the pods together request everything that is missing."""
    return all(sum(pod.info.request(name) for pod in pods) >= amount for name, amount in missing.items())
