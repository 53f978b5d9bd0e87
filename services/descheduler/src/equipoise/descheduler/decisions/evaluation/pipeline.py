"""One evaluation. The leader, the plan preview and the lab run this same function."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.moves import strategy_refusal
from equipoise.contracts.eviction.opt_out import OPT_OUT, VALUE_LIMIT, has_invalid_opt_out
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta, is_ready
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.node_coverage import coverage_problem, readiness_problem
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.plain_text import plain_text
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingStep
from equipoise.descheduler.decisions.evaluation.consolidation import Consolidated, consolidate
from equipoise.descheduler.decisions.evaluation.results import StrategyResult
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot, WatchedObjects
from equipoise.descheduler.decisions.strategies import Strategy, name_of
from equipoise.descheduler.state.abnormal_counts import abnormal_nodes, counted
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.draft import name_of_pod, one_reason_per_pod
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, PodLocation, dry_runs

MAX_NAMED = 5
"""Objects with an unexpected annotation that /readyz names."""


class ObservedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What the watched objects show about pending moves; see `Tracker.update`."""

    awaited: Mapping[Workload, Sequence[Pod]]
    """The pods of workloads of which a replacement is awaited."""

    locations: Mapping[str, PodLocation]
    nodes: Collection[str]
    unexpected_annotations: str


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What all strategies decided, in their order."""

    cluster: ClusterView
    """The cluster that was classified: no move of this evaluation is pending."""

    problem: str
    """Why nothing may be moved; "" when pods may be moved."""

    results: Sequence[StrategyResult]
    """The results of the strategies, and of consolidation if it is on."""

    emptying: EmptyingStep | None = None
    """What was decided about the nodes that are being emptied; None while consolidation is off."""


def observe(
    watched: WatchedObjects, awaited: Collection[Workload], pending: PendingMoves, *, annotations: bool = True
) -> ObservedChanges:
    """`awaited`: workloads of evicted pods without a replacement. `annotations`: whether all pods are searched."""
    return ObservedChanges(
        awaited=watched.pods_of(awaited),
        locations=watched.locations(dry_runs(pending)),
        nodes={node.metadata.name for node in watched.nodes},
        unexpected_annotations=unexpected_annotations(watched) if annotations else "",
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
    moved: set[str] = set()
    for strategy in settings.strategies:
        if results and results[-1].plan.moves:
            builder = builder.with_planned(results[-1].plan.moves)
            cluster = builder.cluster()
        name = name_of(strategy)
        classifications = classify(strategy, classified)
        counts = counted(snapshot.counts.get(name, {}), classifications, now=snapshot.now, interval=settings.interval)
        why = problem or strategy_refusal(settings.rules.level, name) or _emptied_first(strategy, snapshot, settings)
        plan = MovePlan(why=why) if why else strategy.plan(cluster, abnormal_nodes(counts, needed))
        moved |= {name_of_pod(move.pod) for move in (*plan.moves, *plan.later)}
        if plan.refused:
            plan = msgspec.structs.replace(plan, refused=one_reason_per_pod(plan.refused, moved))
        results.append(
            StrategyResult(
                strategy=name,
                window=strategy.windows_of(classified)[0],
                cluster=cluster,
                classifications=classifications,
                plan=plan,
            )
        )
    if settings.consolidation.mode == "off":
        return Evaluation(cluster=classified, problem=problem, results=results)
    if results[-1].plan.moves:
        cluster = builder.with_planned(results[-1].plan.moves).cluster()
    consolidated = consolidate(cluster, snapshot, settings, problem=problem)
    results.append(consolidated.result)
    return Evaluation(cluster=classified, problem=problem, results=results, emptying=consolidated.step)


def _emptied_first(strategy: Strategy, snapshot: Snapshot, settings: EvaluationSettings) -> str:
    """Why a strategy that levels moves nothing now: a node is being emptied. Empty if it may move pods."""
    if settings.consolidation.mode != "act" or snapshot.campaign or not strategy.levels:
        return ""
    state = snapshot.emptying
    names = [node.node for uid, node in state.nodes.items() if uid not in state.empty_since]
    return f"it waits until {', '.join(names)} has been emptied, because no node has to be relieved" if names else ""


def consolidation_now(snapshot: Snapshot, settings: EvaluationSettings) -> Consolidated:
    """What consolidation would decide now, whether it is on or not."""
    cluster = ClusterBuilder(snapshot, settings).cluster()
    return consolidate(cluster, snapshot, settings, problem=_problem(cluster, snapshot, settings))


def preferred_nodes(evaluation: Evaluation) -> Mapping[tuple[str, str], str]:
    """The node that kube-scheduler's own scores prefer for the replacement of a planned pod, by strategy and pod UID.

    If several nodes are preferred equally, it is the target of the move. Earlier moves of the plan count as done.
    """
    preferred_by_pod: dict[tuple[str, str], str] = {}
    for result in evaluation.results:
        if not result.plan.moves:
            continue
        names = [node.name for node in result.cluster.nodes]
        fit = result.cluster.fit(result.cluster.nodes)
        for move in result.plan.moves:
            preferred = [names[position] for position in fit.preferred(move.pod).tolist()]
            if preferred:
                preferred_by_pod[result.strategy, move.pod.uid] = (
                    move.target if move.target in preferred else preferred[0]
                )
            fit.move(move.pod, names.index(move.target))
    return preferred_by_pod


def classify(strategy: Strategy, cluster: ClusterView) -> list[NodeClassification]:
    """The classification of every node, with the time of its oldest sample."""
    windows = strategy.windows_of(cluster)
    samples = {node.name: node.oldest_sample(windows) for node in cluster.nodes}
    return [msgspec.structs.replace(item, sampled_at=samples[item.node]) for item in strategy.classify(cluster)]


def unexpected_annotations(watched: WatchedObjects) -> str:
    """Which objects have an opt-out annotation with another value than "false"; "" when none has.

    The annotation protects nevertheless, but its author may have meant the opposite.
    """
    objects: dict[str, Iterable[Object]] = {
        "namespace": watched.namespaces.values(), "workload": watched.workloads.values(), "pod": watched.pods
    }  # fmt: skip
    unexpected = [
        f'{kind} {metadata.namespace}/{metadata.name} ("{_value(metadata)}")'.replace(" /", " ")
        for kind, values in objects.items()
        for value in values
        if has_invalid_opt_out(metadata := value.metadata)
    ]
    if not unexpected:
        return ""
    more = f" and {len(unexpected) - MAX_NAMED} more" if len(unexpected) > MAX_NAMED else ""
    named = ", ".join(unexpected[:MAX_NAMED])
    return f'annotation {OPT_OUT} protects whatever its value, only "false" is expected: {named}{more}'


def _value(metadata: ObjectMeta) -> str:
    return plain_text(metadata.annotations[OPT_OUT], VALUE_LIMIT)


def _problem(cluster: ClusterView, snapshot: Snapshot, settings: EvaluationSettings) -> str:
    if snapshot.watch_problem:
        return f"the watch of the API server is interrupted: {snapshot.watch_problem}"
    # The collectors expect no load of a node that is not Ready.
    nodes = snapshot.watched.nodes
    problem = readiness_problem(sum(is_ready(node.status.conditions) for node in nodes), len(nodes), settings.load)
    known = sum(not node.unknown for node in cluster.nodes)
    return problem or coverage_problem(
        snapshot.cycles, known=known, load=settings.load, use="eviction", now=snapshot.now
    )
