"""One evaluation. The leader, the plan preview and the lab run this same function."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.coverage import coverage_problem
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.evaluation.annotation_check import unexpected_annotations
from equipoise.descheduler.decisions.evaluation.cluster_builder import ClusterBuilder
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot, WatchedObjects
from equipoise.descheduler.decisions.strategies import Strategy, name_of
from equipoise.descheduler.state.abnormal_counts import NodeObservation, abnormal_nodes, counted
from equipoise.descheduler.state.cluster import ClusterView, MovePlan
from equipoise.descheduler.state.pending_moves import PendingMoves, PodLocation, ReplacementCandidate, dry_runs


class ObservedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What the watched objects show about pending moves; see `Tracker.update`."""

    candidates: Sequence[ReplacementCandidate]
    locations: Mapping[str, PodLocation]
    nodes: Collection[str]
    unexpected_annotations: str


class StrategyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one strategy decided."""

    strategy: str
    window: str
    """The first of the windows that it uses."""

    cluster: ClusterView
    """As it was planned with: the moves of earlier strategies are pending."""

    classifications: Sequence[NodeClassification]
    observations: Sequence[NodeObservation]
    plan: MovePlan


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What all strategies decided, in their order."""

    cluster: ClusterView
    """As it was classified: no move of this evaluation is pending."""

    problem: str
    """Why nothing may be moved; "" when pods may be moved."""

    results: Sequence[StrategyResult]


def observe(watched: WatchedObjects, awaited: Collection[Workload], pending: PendingMoves) -> ObservedChanges:
    """`awaited`: workloads of evicted pods without a replacement."""
    return ObservedChanges(
        candidates=watched.replacement_candidates(awaited),
        locations=watched.locations(dry_runs(pending)),
        nodes={node.metadata.name for node in watched.nodes},
        unexpected_annotations=unexpected_annotations(watched),
    )


def evaluate(snapshot: Snapshot, settings: EvaluationSettings, *, needed: int | None = None) -> Evaluation:
    """Every strategy classifies the nodes of the snapshot; it plans as if the moves of earlier strategies were pending.

    `needed`: consecutive abnormal evaluations before a pod may leave a node; None: as configured.
    """
    builder = ClusterBuilder(snapshot, settings)
    cluster = classified = builder.cluster()
    needed = settings.consecutive_abnormalities if needed is None else needed
    problem = _problem(classified, snapshot, settings)
    results: list[StrategyResult] = []
    for strategy in settings.strategies:
        if results and results[-1].plan.moves:
            builder = builder.with_planned(results[-1].plan.moves)
            cluster = builder.cluster()
        name = name_of(strategy)
        classifications, observations = classify(strategy, classified)
        counts = counted(snapshot.counts.get(name, {}), observations, now=snapshot.now, interval=settings.interval)
        plan = MovePlan(why=problem) if problem else strategy.plan(cluster, abnormal_nodes(counts, needed))
        results.append(
            StrategyResult(
                strategy=name,
                window=strategy.windows_of(classified)[0],
                cluster=cluster,
                classifications=classifications,
                observations=observations,
                plan=plan,
            )
        )
    return Evaluation(cluster=classified, problem=problem, results=results)


def classify(strategy: Strategy, cluster: ClusterView) -> tuple[list[NodeClassification], list[NodeObservation]]:
    """The classification of every node with the time of its oldest sample, and the same as an observation to count."""
    windows = strategy.windows_of(cluster)
    samples = {node.name: node.oldest_sample(windows) for node in cluster.nodes}
    classifications = [
        msgspec.structs.replace(each, sampled_at=samples[each.node]) for each in strategy.classify(cluster)
    ]
    observations = [
        NodeObservation(
            node=each.node, abnormal=None if each.state == "unknown" else each.abnormal, sampled_at=each.sampled_at
        )
        for each in classifications
    ]
    return classifications, observations


def _problem(cluster: ClusterView, snapshot: Snapshot, settings: EvaluationSettings) -> str:
    if snapshot.watch_problem:
        return f"the watch of the API server is interrupted: {snapshot.watch_problem}"
    known = sum(not node.unknown for node in cluster.nodes)
    return coverage_problem(snapshot.cycles, known=known, load=settings.load, use="eviction", now=snapshot.now)
