"""What the moves of a campaign do to the spread of the nodes, by present loads."""

from equipoise.contracts.messages.descheduling import CampaignEffect
from equipoise.descheduler.decisions.cluster import ClusterView, PodMove
from equipoise.descheduler.decisions.evaluation.load_extremes import load_extremes
from equipoise.descheduler.state.moves.campaign_moves import CampaignMoves


def campaign_effect(cluster: ClusterView, campaign: CampaignMoves) -> CampaignEffect:
    """The spread without these moves, and with all of them as planned.

    A move is left out if its replacement has left its node or is not measured, or if the load of one of its nodes is
    unknown.
    """
    nodes = {node.name: node for node in cluster.nodes if not node.unknown}
    undone, moved_on = [], []
    for move in campaign.moves:
        if not {move.node, move.target, move.placed_on} <= nodes.keys():
            continue
        pod = next((pod for pod in nodes[move.placed_on].pods if pod.uid == move.replacement_uid), None)
        if pod is None or pod.usage.cpu is None or pod.usage.memory is None:
            continue
        undone.append(PodMove(pod=pod, target=move.node, reason="", sampled_at=0.0))
        moved_on.append(PodMove(pod=pod, target=move.target, reason="", sampled_at=0.0))
    if not undone:
        return CampaignEffect(campaign=campaign.name)
    return CampaignEffect(
        campaign=campaign.name,
        moves=len(undone),
        without_moves=load_extremes(cluster, undone).spread,
        as_planned=load_extremes(cluster, moved_on).spread,
    )
