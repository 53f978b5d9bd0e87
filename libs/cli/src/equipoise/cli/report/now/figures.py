"""The figures of `report`. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.causes import Resource, UnevenWorkload, causes, most_uneven
from equipoise.cli.cluster_now.nodes import NodeNow, counted, nodes_now
from equipoise.cli.cluster_now.reading import ClusterNow
from equipoise.cli.cluster_now.spread import Spread, spread_of
from equipoise.cli.cluster_now.waiting import LoadAndPressure, NodesThatWait, nodes_that_wait
from equipoise.cli.doctor.checks.measurements.nodes import FIXES
from equipoise.cli.report.now.next_steps import NextStep, next_steps
from equipoise.cli.report.now.oversized import OversizedWorkload, oversized
from equipoise.cli.terminal import count
from equipoise.cli.uninstall.release import COMPONENT
from equipoise.collector.decisions.validation.usage import Reason
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.load.correction import total_of
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import NodeClassification, NodeState, most_urgent
from equipoise.contracts.messages.plan import PlannedMove
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.descheduler.decisions.cluster import IntentLimits
from equipoise.descheduler.decisions.evaluation.load_extremes import load_after
from equipoise.descheduler.decisions.evaluation.messages import plan_response
from equipoise.descheduler.decisions.evaluation.pipeline import Evaluation, evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder

MOST = 3
"""The largest number of hottest nodes, of idlest nodes and of workloads that are named."""

MAX_MOVES = 500
"""The largest number of moves for which the spread is predicted."""

_LIFTED = IntentLimits(per_evaluation=MAX_MOVES, per_node=MAX_MOVES, per_workload=MAX_MOVES)
_NOBODY = LeaseEpoch(lease_uid="", transitions=0, holder="")


class NotKnown(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the report cannot state."""

    what: str
    why: str
    fix: str = ""


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """What the descheduler would change if it were running and the usage of pods stayed the same."""

    problem: str = ""
    """Why nothing can be planned; empty when a plan was made."""

    moves: list[PlannedMove] = []
    """The moves of the next evaluation, with the limits on moves in one evaluation."""

    all_moves: int = 0
    """The number of moves of all evaluations until no move is left, at most 500."""

    after: Spread | None = None
    """The spread after all of these moves."""

    hottest_after: float | None = None
    """The highest load (0..1) of the most uneven resource after all of these moves."""

    why: Mapping[str, str] = {}
    """Why a strategy would move nothing, by strategy."""


class NowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report. Loads are shares (0..1) of a node."""

    cluster: ClusterName
    prometheus: str
    profile: str
    profile_detected: bool
    at: float
    window: str
    nodes: int
    hot: int
    """Nodes away from which pods would be moved, if they stay as they are."""

    set_apart: int
    """Nodes that do not count for the spread: of the control plane, virtual, cordoned, or not Ready."""

    pods: int
    pods_measured: int
    detached: list[str] = []
    """The pods that are detached by a move without a gap, with their workloads: `shop/web-1 of Deployment/shop/web`."""

    before: Spread
    resource: Resource
    """The more uneven resource. The causes and the hottest nodes refer to it."""

    hottest: list[NodeNow]
    idlest: list[NodeNow]
    causes: list[UnevenWorkload]
    oversized: list[OversizedWorkload] = []
    """Workloads that request many times what they use, ordered by the unused amount, largest first."""

    waiting: NodesThatWait
    """The nodes on which pods wait for others, and those that are only busy."""

    prospect: Prospect
    unknown: list[NotKnown]
    next: list[NextStep]


def now_report(
    now: ClusterNow,
    settings: EvaluationSettings,
    *,
    cluster: ClusterName,
    prometheus: str,
    profile: str,
    profile_detected: bool,
    options: Sequence[str],
) -> NowReport:
    """The report of one reading.

    `options`: the options with which the commands in the report reach the same cluster.
    """
    snapshot, window = now.snapshot, settings.load.shortest.name
    evaluation = None if now.missing else evaluate(snapshot, settings, needed=1)
    view = ClusterBuilder(snapshot, settings).cluster() if evaluation is None else evaluation.cluster
    all_nodes = nodes_now(view.nodes, now.placements, now.unknown, now.not_expected, window)
    counting = counted(all_nodes)
    before = spread_of([node.load for node in counting])
    resource = most_uneven(before.spread)
    by_load = sorted(
        (node for node in counting if getattr(node.load, resource) is not None),
        key=lambda node: (-getattr(node.load, resource), node.node),
    )
    running = [
        (node, pod.uid) for node, placement in now.placements.items() for pod in placement.pods if pod.running_since
    ]
    measured = sum(node in snapshot.nodes and uid in snapshot.nodes[node].pods for node, uid in running)
    uneven = causes(counting, resource, now.placements, snapshot.nodes, MOST)
    offered = total_of(node.allocatable for node in counting)
    too_large = oversized(now.placements, snapshot.nodes, snapshot.workloads, offered, MOST)
    return NowReport(
        cluster=cluster,
        prometheus=prometheus,
        profile=profile,
        profile_detected=profile_detected,
        at=snapshot.now,
        window=window,
        nodes=len(all_nodes),
        hot=len(hot_nodes(result.classifications for result in evaluation.results)) if evaluation else 0,
        set_apart=sum(bool(node.set_apart) for node in all_nodes),
        pods=len(running),
        pods_measured=measured,
        detached=sorted(
            f"{pod.namespace}/{pod.name} of {pod.workload}"
            for placement in now.placements.values()
            for pod in placement.pods
            if pod.detached
        ),
        before=before,
        resource=resource,
        hottest=by_load[:MOST],
        idlest=by_load[max(MOST, len(by_load) - MOST) :],  # without the hottest nodes
        causes=uneven,
        oversized=too_large,
        waiting=nodes_that_wait(
            [LoadAndPressure(node.name, node.load(window), node.pressure) for node in view.nodes],
            settings.thresholds,
            required=settings.require_pressure,
        ),
        prospect=_prospect(now, settings, evaluation, {node.node for node in counting}, resource),
        unknown=[
            *_unknown_nodes(all_nodes, now),
            *_unknown_resources(all_nodes),
            *_other_unknowns(now, len(running), measured),
        ],
        next=next_steps(
            uneven,
            too_large,
            now.placements,
            snapshot.watched.pods,
            options,
            unknown=bool(now.unknown or now.problem),
            installed=_installed(snapshot.watched.pods, settings.rules.own_namespace),
        ),
    )


def _installed(pods: Iterable[Pod], namespace: str) -> bool:
    """Whether Equipoise runs in this namespace of the cluster."""
    return any(
        pod.metadata.namespace == namespace and pod.metadata.labels.get(COMPONENT) == "descheduler" for pod in pods
    )


def hot_nodes(classifications: Iterable[Iterable[NodeClassification]]) -> list[str]:
    """The nodes that are hot by all strategies together. `classifications`: those of each strategy."""
    states: defaultdict[str, list[NodeState]] = defaultdict(list)
    for node in chain.from_iterable(classifications):
        states[node.node].append(node.state)
    return [name for name, of_node in states.items() if most_urgent(of_node) == "hot"]


def _prospect(
    now: ClusterNow,
    settings: EvaluationSettings,
    evaluation: Evaluation | None,
    counting: set[str],
    resource: Resource,
) -> Prospect:
    if evaluation is None:
        return Prospect(problem=f"this user may not list {', '.join(now.missing)}, which may protect pods")
    if evaluation.problem:
        return Prospect(problem=evaluation.problem)
    response = plan_response(evaluation, now.snapshot, settings, evictions="", leader=_NOBODY)
    moves = [move for move in response.moves if not move.later]
    if not moves:
        return Prospect(why=response.why)
    window = settings.load.shortest.name
    unlimited = evaluate(now.snapshot, msgspec.structs.replace(settings, limits=_LIFTED), needed=1)
    last = unlimited.results[-1]
    last_moves = [*last.plan.moves, *last.plan.later]
    loads = [load_after(node, window, last_moves) for node in last.cluster.nodes if node.name in counting]
    after = [load for load in (getattr(node_load, resource) for node_load in loads) if load is not None]
    return Prospect(
        moves=moves,
        all_moves=sum(len(result.plan.moves) for result in unlimited.results) + len(last.plan.later),
        after=spread_of(loads),
        hottest_after=max(after, default=None),
        why=response.why,
    )


def _unknown_nodes(nodes: Sequence[NodeNow], now: ClusterNow) -> list[NotKnown]:
    """One entry for each reason, with up to three nodes."""
    groups: dict[Reason | None, list[NodeNow]] = {}
    for node in nodes:
        if node.unknown:
            reason = now.unknown[node.node].reason if node.node in now.unknown else None
            groups.setdefault(reason, []).append(node)
    unknown = []
    for why, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        what = f"the load of {count(len(members), 'node')}"
        fix = "" if why is None else FIXES[why]
        unknown.append(NotKnown(what=what, why=_first_of({node.node: node.unknown for node in members}), fix=fix))
    return unknown


def _unknown_resources(nodes: Sequence[NodeNow]) -> list[NotKnown]:
    """One entry for each further resource, with up to three of the nodes on which its load is unknown."""
    reasons: dict[str, dict[str, str]] = {}
    for node in nodes:
        for name, why in node.unknown_resources.items():
            reasons.setdefault(name, {})[node.node] = why
    return [
        NotKnown(what=f"the {name} load of {count(len(by_node), 'node')}", why=_first_of(by_node))
        for name, by_node in sorted(reasons.items())
    ]


def _first_of(reasons: Mapping[str, str]) -> str:
    """The reasons by node, of up to three nodes."""
    named = "; ".join(f"{node}: {why}" for node, why in list(reasons.items())[:MOST])
    return f"{named}; and {len(reasons) - MOST} more" if len(reasons) > MOST else named


def _other_unknowns(now: ClusterNow, pods: int, measured: int) -> list[NotKnown]:
    unknown = []
    if now.problem:
        unknown.append(NotKnown(what="a part of the measurement", why=now.problem))
    if measured < pods:
        why = "a pod is measured once it has samples of the whole window"
        unknown.append(NotKnown(what=f"the usage of {pods - measured:,} of {count(pods, 'pod')}", why=why))
    if now.hours < SLOTS:
        unknown.append(
            NotKnown(
                what=f"{SLOTS - now.hours} of the past {SLOTS} hours",
                why="Prometheus has no usage of workloads of that time; level_day plans by measured hours only",
            )
        )
    return unknown
