"""The decision of the library beside that of kube-scheduler, for the same pod and state."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from scheduling.parity.common_objects import Document
from scheduling.parity.outcome import Outcome, State

from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.configuration import KIND, read_configuration
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.default_preemption import DefaultPreemption
from equipoise.scheduling.preemption.candidate import PreemptionCandidate, cost
from equipoise.scheduling.scheduler import Decision
from equipoise.scheduling.settings.plugin_arguments import API_VERSION


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that both decided differently."""

    what: str
    library: object
    real: object


class First:
    """A generator that takes the first one of several equal nodes; which one is not compared."""

    def random(self) -> float:
        return 0.0


def compare(state: State, outcome: Outcome, configuration: Document | None = None) -> list[Difference]:
    """What the library decides in the state before the pod was placed, and kube-scheduler did not."""
    return _compare_in(cluster_of(state, configuration), state, outcome)


def compare_all(
    state: State, outcomes: Sequence[Outcome], configuration: Document | None = None
) -> list[list[Difference]]:
    """The differences of each attempt, with the pods where kube-scheduler has put them before."""
    cluster = cluster_of(state, configuration)
    found = []
    tried: set[str] = set()
    lowest = math.inf
    for outcome in outcomes:
        found.append(_compare_in(cluster, state, outcome, continued=True))
        if outcome.pod.metadata.uid not in tried:
            # All wait from the beginning: no pod is tried first after one of lower priority.
            if outcome.pod.spec.priority > lowest:
                found[-1].append(Difference(what="order", library=lowest, real=outcome.pod.spec.priority))
            tried.add(outcome.pod.metadata.uid)
            lowest = outcome.pod.spec.priority
        if outcome.node:
            row = cluster.snapshot.row(outcome.node)
            assert row is not None
            cluster.snapshot.add_pod(PodInfo(outcome.pod), row)
    return found


def cluster_of(state: State, configuration: Document | None = None) -> ClusterScheduler:
    document = {"apiVersion": API_VERSION, "kind": KIND, **(configuration or {})}
    cluster = ClusterScheduler(First(), read_configuration(document))
    for each in (*state.nodes, *state.pods, *state.others):
        cluster.put(each)
    return cluster


def _compare_in(
    cluster: ClusterScheduler, state: State, outcome: Outcome, *, continued: bool = False
) -> list[Difference]:
    """`continued`: the cluster has searched nodes for all pods before, as kube-scheduler."""
    pod = PodInfo(outcome.pod)
    decision = cluster.decide(pod)
    if not continued and not cluster.schedulers[pod.pod.spec.scheduler_name].framework.plugins("score"):
        # Without scores the node at which the search began is chosen, which is not known here.
        decision = _with_node_of(decision, cluster, outcome)
    preempts = decision.preemption is not None and bool(decision.preemption.node)
    framework = cluster.schedulers[pod.pod.spec.scheduler_name].framework
    candidates = equal_candidates(framework, cluster.snapshot, pod, decision) if preempts else ()
    return list(differences(decision, outcome, state, candidates))


def _with_node_of(decision: Decision, cluster: ClusterScheduler, outcome: Outcome) -> Decision:
    """The node that kube-scheduler has chosen, if it passes all filters."""
    if decision.diagnosis is None:
        return decision
    passed = decision.diagnosis.rows[decision.diagnosis.passed].tolist()
    if outcome.node not in map(cluster.snapshot.name, passed):
        return decision
    return msgspec.structs.replace(decision, node=outcome.node, feasible=[outcome.node])


def equal_candidates(
    framework: Framework, snapshot: ClusterSnapshot, pod: PodInfo, decision: Decision
) -> Sequence[PreemptionCandidate]:
    """The candidates that preemption could choose as well as the one that it chose."""
    assert decision.diagnosis is not None
    state = CycleState()
    framework.pre_filter(state, pod, snapshot)
    rows = [row for row, status in decision.diagnosis.by_node().items() if status.code == Code.UNSCHEDULABLE]
    found = [
        each
        for plugin in framework.plugins("postFilter")
        if isinstance(plugin, DefaultPreemption)
        for each in plugin.candidates(state, pod, snapshot, rows)
    ]
    least = min(map(cost, found))
    return [each for each in found if cost(each) == least]


def differences(
    decision: Decision, outcome: Outcome, state: State, candidates: Sequence[PreemptionCandidate]
) -> Iterator[Difference]:
    """Nothing if both agree. Of several equal nodes or victims any is right."""
    preemption = decision.preemption
    failed = decision.status is not None and decision.status.code == Code.ERROR
    if failed or outcome.failed:
        if failed != outcome.failed:
            yield Difference(what="error", library=decision.status, real=outcome.message or outcome.node)
        return
    if preemption is not None and preemption.node:
        yield from _of_preemption(candidates, outcome, state)
        return
    if not decision.node or not outcome.node:
        if bool(decision.node) != bool(outcome.node):
            yield Difference(
                what="whether a node was found", library=decision.node, real=outcome.node or outcome.message
            )
        elif decision.message(len(state.nodes)) != outcome.message:
            yield Difference(what="message", library=decision.message(len(state.nodes)), real=outcome.message)
        return
    scored = set(outcome.scored) or {outcome.node}
    if set(decision.feasible) != scored:
        yield Difference(what="feasible nodes", library=sorted(decision.feasible), real=sorted(scored))
        return
    if decision.scores is not None:
        yield from _of_scores(decision, outcome)
    best = best_nodes(decision)
    if outcome.node not in best:
        yield Difference(what="node", library=sorted(best), real=outcome.node)


def best_nodes(decision: Decision) -> set[str]:
    """The nodes with the highest score."""
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


def _of_preemption(candidates: Sequence[PreemptionCandidate], outcome: Outcome, state: State) -> Iterator[Difference]:
    nodes = sorted(each.node for each in candidates)
    if outcome.node not in nodes:
        yield Difference(what="node after preemption", library=nodes, real=outcome.node or outcome.message)
        return
    removed = Counter(pod.spec.priority for pod in state.pods if pod.metadata.uid in outcome.removed)
    # Those that terminate already are not removed again, and of equally important ones any may be a victim.
    terminating = Counter(
        pod.spec.priority
        for pod in state.pods
        if pod.spec.node_name == outcome.node and pod.metadata.deletion_timestamp is not None
    )
    mine = [Counter(pod.priority for pod in each.victims) for each in candidates if each.node == outcome.node]
    if not any(removed <= each and each - removed <= terminating for each in mine):
        yield Difference(
            what="priorities of the victims",
            library=[sorted(each.elements()) for each in mine],
            real=sorted(removed.elements()),
        )


def text_of(found: Sequence[Difference]) -> str:
    return "; ".join(f"{each.what}: library {each.library}, kube-scheduler {each.real}" for each in found)
