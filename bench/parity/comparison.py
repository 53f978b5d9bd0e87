"""The decision of the library beside that of kube-scheduler, for the same pod and state."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from bench.parity.real_scheduler import Outcome, State
from equipoise.contracts.kubernetes.objects import LabelSelector
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import PostFiltered
from equipoise.scheduling.framework.status import SUCCESS
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import Snapshot
from equipoise.scheduling.scheduler import Decision, Scheduler


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that both decided differently."""

    what: str
    library: object
    real: object


class First:
    """Of several equal nodes the first one; which one is not compared."""

    def random(self) -> float:
        return 0.0


def decide(framework: Framework, state: State, outcome: Outcome) -> tuple[Decision, Snapshot]:
    """What the library decides in the state before the pod was placed."""
    snapshot = snapshot_of(state)
    return Scheduler(framework).schedule(PodInfo(outcome.pod), snapshot, First(), nominated=Nominated()), snapshot


def snapshot_of(state: State) -> Snapshot:
    snapshot = Snapshot(state.nodes, [PodInfo(pod) for pod in state.pods])
    for namespace in state.namespaces:
        snapshot.put_namespace(namespace)
    return snapshot


def no_selector(_: PodInfo) -> LabelSelector | None:
    """There are no Services and no workloads."""
    return None


def differences(decision: Decision, outcome: Outcome, state: State) -> Iterator[Difference]:
    """Nothing if both agree. Of several equal nodes or victims any is right."""
    preemption = decision.preemption
    if preemption is not None and preemption.status == msgspec.structs.replace(
        SUCCESS, plugin=preemption.status.plugin
    ):
        yield from _of_preemption(preemption, outcome, state)
        return
    if not decision.node or not outcome.node:
        if bool(decision.node) != bool(outcome.node):
            yield Difference(
                what="whether a node was found", library=decision.node, real=outcome.node or outcome.message
            )
        elif decision.message(len(state.nodes)) != outcome.message:
            yield Difference(what="message", library=decision.message(len(state.nodes)), real=outcome.message)
        return
    scored = set().union(*outcome.scores.values()) if outcome.scores else {outcome.node}
    if set(decision.feasible) != scored:
        yield Difference(what="feasible nodes", library=sorted(decision.feasible), real=sorted(scored))
        return
    if decision.scores is not None:
        yield from _of_scores(decision, outcome)
    best = best_nodes(decision)
    if outcome.node not in best:
        yield Difference(what="node", library=sorted(best), real=outcome.node)


def best_nodes(decision: Decision) -> set[str]:
    """Those with the highest score."""
    if decision.scores is None:
        return {decision.node}
    total = decision.scores.total
    return {decision.feasible[place] for place in np.flatnonzero(total == total.max()).tolist()}


def _of_scores(decision: Decision, outcome: Outcome) -> Iterator[Difference]:
    assert decision.scores is not None
    ours = decision.scores.weighted
    for plugin in sorted(set(ours) | set(outcome.scores)):
        mine: Mapping[str, int] = (
            dict(zip(decision.feasible, ours[plugin].tolist(), strict=True)) if plugin in ours else {}
        )
        theirs = outcome.scores.get(plugin, {})
        for node in decision.feasible:
            if mine.get(node, 0) != theirs.get(node, 0):
                yield Difference(
                    what=f"score of {plugin} for {node}", library=mine.get(node, 0), real=theirs.get(node, 0)
                )


def _of_preemption(preemption: PostFiltered, outcome: Outcome, state: State) -> Iterator[Difference]:
    priorities = {pod.metadata.uid: pod.spec.priority for pod in state.pods}
    if outcome.node != preemption.node:
        real = outcome.node or outcome.message
        yield Difference(what="node after preemption", library=preemption.node, real=real)
    mine = sorted(pod.priority for pod in preemption.victims)
    theirs = sorted(priorities[uid] for uid in outcome.removed)
    if mine != theirs:
        yield Difference(what="priorities of the victims", library=mine, real=theirs)


def text_of(found: Sequence[Difference]) -> str:
    return "; ".join(f"{each.what}: library {each.library}, kube-scheduler {each.real}" for each in found)
