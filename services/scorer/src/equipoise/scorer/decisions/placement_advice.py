"""Where a placed pod would better have gone: its node's rank and regret among all that could have held it."""

import numpy as np

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.messages.advice import AdvisedNode, PlacementAdvice
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.ranking import Ranked
from equipoise.scorer.state.arrays import resources


def deserves_advice(pod: PlacedPod, node: str, *, life: float, now: float) -> bool:
    """Had its scheduler a choice, and is it so lately placed (`life`: seconds) that today's loads were those of then?

    A DaemonSet's pod goes where its node is, and so does a static one: it bears its node's name.
    """
    daemon = pod.workload is not None and pod.workload.kind == "DaemonSet"
    static = pod.workload is None and pod.name.endswith(f"-{node}")
    return not (daemon or static or pod.terminating) and now - pod.placed_at <= life


def as_asked(pod: PlacedPod) -> PodDemand:
    """The question that its scheduler would have asked."""
    return PodDemand(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        workload=pod.workload,
        qos=pod.qos,
        priority=pod.priority,
        priority_class=pod.priority_class,
        requests=pod.requests,
        limits=pod.limits,
    )


def advice(
    pod: PlacedPod,
    node: str,
    ranked: Ranked | None,
    *,
    policy_name: str,
    high: ResourceThresholds,
    why: str = "",
    now: float,
) -> PlacementAdvice:
    """What is said of one placement. `ranked` has `node` among its names; None: nothing can be said, and `why`."""
    marks = Resources(
        cpu=None if high.cpu is None else high.cpu / 100.0, memory=None if high.memory is None else high.memory / 100.0
    )
    if ranked is None:
        rank, regret, chosen, best, considered, neutral = None, None, None, None, 0, False
    else:
        here = ranked.names.index(node)
        top = int(ranked.points.argmax())
        regret = float(ranked.points[top] - ranked.points[here])
        rank = 1 + int(np.count_nonzero(ranked.points > ranked.points[here]))
        chosen = _advised_node(ranked, here)
        best = chosen if rank == 1 else _advised_node(ranked, top)
        considered, neutral, why = len(ranked.names), ranked.answer.neutral, ranked.answer.why
    return PlacementAdvice(
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        workload=pod.workload,
        node=node,
        policy=policy_name,
        considered=considered,
        chosen=chosen,
        best=best,
        rank=rank,
        regret=None if regret is None else round(regret, 2),
        neutral=neutral,
        why=why,
        high=marks,
        placed_at=pod.placed_at,
        advised_at=now,
    )


def _advised_node(ranked: Ranked, index: int) -> AdvisedNode:
    """The loads are those of one window, so that their difference is the pod."""
    row = ranked.nodes.load[index]
    window = next((at for at in range(len(row)) if not np.isnan(row[at]).all()), 0)
    with_pod = row[window] + ranked.demand.usage[window] / ranked.nodes.base[index]
    return AdvisedNode(
        node=ranked.names[index],
        score=round(float(ranked.points[index]), 2),
        load=resources(row[window]),
        with_pod=resources(with_pod),
    )
