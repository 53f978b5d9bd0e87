"""Which nodes are being emptied: when one is begun, and when it is ended.

What must survive a change of leaders is the taint on the node. A node with the taint is being emptied since the time in
it, unless this leader has ended its emptying.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.kubernetes.nodes.consolidation_taint import emptied_since
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.consolidation.candidates import is_being_emptied, is_empty
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.consolidation.plan import ConsolidationPlan, EmptiedNode

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo

HAS_TAINT = "it has the taint of a node that is being emptied"


class EmptyingState(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept between evaluations, by UID of the node."""

    nodes: Mapping[str, NodeBeingEmptied] = {}
    empty_since: Mapping[str, float] = {}
    """The time at which each of them was first found empty. A new leader begins anew."""

    left_out_until: Mapping[str, float] = {}
    """Nodes whose emptying was ended."""


class EndedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is no longer emptied although it exists."""

    node: str
    why: str


class EmptyingStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluation decides about the nodes that are being emptied."""

    state: EmptyingState
    ended: Sequence[EndedNode] = ()
    begun: EmptiedNode | None = None
    emptied: Sequence[EmptiedNode] = ()
    """The nodes from which pods should move now, with all moves."""

    why: str = ""
    """Why no further node is begun; empty if one is."""

    stalled: str = ""
    """Which node is empty and was not removed in time; empty without one."""


def next_step(
    cluster: ClusterView,
    plan: ConsolidationPlan,
    settings: Consolidation,
    state: EmptyingState,
    *,
    forbidden: str,
    waiting: str = "",
) -> EmptyingStep:
    """The step of one evaluation.

    `forbidden`: why consolidation may move no pod; empty if it may. `waiting`: why it moves none for a while, above all
    because too few loads are known: nothing is begun or ended until it may go on.

    A node that is begun gets its taint before the first of its pods moves, at the next evaluation.
    """
    now = cluster.now
    if waiting and not forbidden:
        return EmptyingStep(state=state, why=waiting)
    nodes = {node.object.metadata.uid: node for node in cluster.nodes}
    known = _adopted(nodes, state, now)
    pending = pending_pod(cluster.unscheduled)
    # A node that is being emptied may itself be above a threshold: its pods leave.
    above = {name: text for name, text in plan.above.items() if name not in {each.node for each in known.values()}}
    everywhere = forbidden or pending or _above_text(above)
    planned = {each.node.name: each for each in plan.nodes}
    kept: dict[str, NodeBeingEmptied] = {}
    empty_since: dict[str, float] = {}
    ended: list[EndedNode] = []
    left_out = {uid: until for uid, until in state.left_out_until.items() if until > now}
    for uid, each in known.items():
        node = nodes[uid]
        empty = is_empty(node)
        why = everywhere or _end(each, node, plan, settings, now, empty=empty)
        if why:
            ended.append(EndedNode(node=node.name, why=why))
            left_out[uid] = now + settings.retry_interval
        else:
            kept[uid] = each
            if empty:
                empty_since[uid] = min(state.empty_since.get(uid, now), now)
    stalled = _stalled(kept, empty_since, settings, now)
    why = everywhere or stalled
    if not why and len(kept) >= settings.max_nodes:
        why = f"{', '.join(each.node for each in kept.values())} is being emptied, and maxNodes is {settings.max_nodes}"
    begun = None
    if not why:
        begun = next((each for each in plan.nodes if _may_begin(each, left_out)), None)
        why = "" if begun is not None else "no node could be emptied"
    if begun is not None:
        chosen = NodeBeingEmptied(
            node=begun.node.name, uid=begun.node.object.metadata.uid, since=now, why=reason_of(begun)
        )
        kept[chosen.uid] = chosen
    return EmptyingStep(
        state=EmptyingState(nodes=kept, empty_since=empty_since, left_out_until=left_out),
        ended=ended,
        begun=begun,
        emptied=[planned[each.node] for each in kept.values() if each.since < now and each.node in planned],
        why=why,
        stalled=stalled,
    )


def pending_pod(pods: Sequence["PodInfo"]) -> str:
    """Why nodes are needed: a pod that kube-scheduler could not place. Empty without one."""
    for info in pods:
        for condition in info.pod.status.conditions:
            waits = (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
            if waits and not info.terminating:
                return f"pod {info.namespace}/{info.name} waits for a node"
    return ""


def reason_of(emptied: EmptiedNode) -> str:
    """Why a node is chosen: `its 6 pods fit on 4 other nodes in every hour of the day`."""
    pods, targets = len(emptied.moves), len({target.name for _, target in emptied.moves})
    if not pods:
        return "it has no pods besides those that end with it"
    which = "its pod fits" if pods == 1 else f"its {pods} pods fit"
    return f"{which} on {targets} other {'node' if targets == 1 else 'nodes'} in every hour of the day"


def _adopted(nodes: Mapping[str, ClusterNode], state: EmptyingState, now: float) -> dict[str, NodeBeingEmptied]:
    """The nodes that are being emptied and still exist, and those with the taint of another leader."""
    known = {uid: each for uid, each in state.nodes.items() if uid in nodes}
    for uid, node in nodes.items():
        if uid not in known and is_being_emptied(node) and state.left_out_until.get(uid, 0.0) <= now:
            since = emptied_since(node.object.spec.taints)
            known[uid] = NodeBeingEmptied(
                node=node.name, uid=uid, since=now if since is None else min(since, now), why=HAS_TAINT
            )
    return known


def _end(
    each: NodeBeingEmptied,
    node: ClusterNode,
    plan: ConsolidationPlan,
    settings: Consolidation,
    now: float,
    *,
    empty: bool,
) -> str:
    """Why a node is no longer emptied; empty if it goes on.

    What pods lack for a while, such as a budget that allows no disruption now, and a load that is not known at present,
    end it only after the timeout.
    """
    obstacle = plan.staying.get(node.name)
    if obstacle is not None and not obstacle.unknown and obstacle.bound in ("", "load"):
        return obstacle.why
    if not empty and now - each.since > settings.emptying_timeout:
        why = f": {obstacle.why}" if obstacle is not None else ""
        return f"it is not empty after {settings.emptying_timeout} (emptyingTimeout){why}"
    return ""


def _stalled(
    kept: Mapping[str, NodeBeingEmptied], empty_since: Mapping[str, float], settings: Consolidation, now: float
) -> str:
    """Which node is empty and was not removed in time; empty without one."""
    for uid, since in empty_since.items():
        if now - since > settings.removal_timeout:
            return (
                f"{kept[uid].node} has been empty for {round((now - since) / 60)} min, and no autoscaler removed it: "
                f"check that one removes empty nodes"
            )
    return ""


def _may_begin(each: EmptiedNode, left_out: Mapping[str, float]) -> bool:
    return not is_being_emptied(each.node) and each.node.object.metadata.uid not in left_out


def _above_text(above: Mapping[str, str]) -> str:
    if not above:
        return ""
    name, text = next(iter(above.items()))
    more = f", and {len(above) - 1} more" if len(above) > 1 else ""
    return f"{name} is above its threshold, {text}{more}: no node can be spared before that is leveled"
