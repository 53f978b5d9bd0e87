"""What the moves of a campaign do to the spread: the same loads without them, and with all of them as planned."""

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization
from descheduler.outcomes import a_proposed_move
from descheduler.snapshots import LONG_AGO, a_pod, a_snapshot, evaluation_settings, owners_of
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.messages.descheduling import CampaignEffect
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.evaluation.campaign_effect import campaign_effect
from equipoise.descheduler.decisions.evaluation.load_extremes import load_extremes
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.descheduler.state.moves.campaign_moves import CampaignMove, CampaignMoves

NODES = ("node-a", "node-b", "node-c")


def three_nodes(*cores: float, measured: bool = True) -> ClusterView:
    """Nodes of 10 cores with this usage; one core of node-b is app-x."""
    pod = a_pod("app-x", node="node-b", app="app", placed_at=LONG_AGO)
    usages = {pod.metadata.uid: Resources(cpu=cores[1] / 4, memory=GIB)} if measured else {}
    utilization = {
        name: a_node_utilization(name, cpu=cpu, memory=GIB, pods=usages if name == "node-b" else {})
        for name, cpu in zip(NODES, cores, strict=True)
    }
    snapshot = msgspec.structs.replace(a_snapshot(pod, nodes=NODES, owners=owners_of("app")), nodes=utilization)
    return ClusterBuilder(snapshot, evaluation_settings()).cluster()


def moved(node: str = "node-a", target: str = "node-b", placed_on: str = "node-b", pod: str = "app-x") -> CampaignMoves:
    move = CampaignMove(node=node, target=target, placed_on=placed_on, replacement_uid=f"uid-{pod}")
    return CampaignMoves(name="chg-1", moves=(move,))


def cpu_of(effect: CampaignEffect) -> tuple[float | None, float | None]:
    return effect.without_moves.cpu, effect.as_planned.cpu


def test_the_spread_without_a_move_has_its_pod_on_the_node_that_it_left() -> None:
    """The replacement is on its target: as planned, the spread is what it is."""
    cluster = three_nodes(6.0, 4.0, 5.0)
    effect = campaign_effect(cluster, moved())
    assert (effect.campaign, effect.moves) == ("chg-1", 1)
    assert cpu_of(effect) == (pytest.approx(0.4), pytest.approx(0.2))
    assert load_extremes(cluster, ()).spread.cpu == effect.as_planned.cpu


def test_a_replacement_elsewhere_is_on_its_target_in_the_spread_as_planned() -> None:
    assert cpu_of(campaign_effect(three_nodes(6.0, 4.0, 2.0), moved(target="node-c"))) == (
        pytest.approx(0.5),
        pytest.approx(0.3),
    )


@pytest.mark.parametrize(
    "moves", [moved(pod="gone"), moved(node="node-z"), moved(target="node-z"), moved(placed_on="node-c"), moved("")]
)
def test_a_move_whose_pod_or_node_is_gone_is_left_out(moves: CampaignMoves) -> None:
    assert campaign_effect(three_nodes(6.0, 4.0, 5.0), moves) == CampaignEffect(campaign="chg-1")


def test_a_replacement_that_is_not_measured_is_left_out() -> None:
    assert campaign_effect(three_nodes(6.0, 4.0, 5.0, measured=False), moved()) == CampaignEffect(campaign="chg-1")
    assert campaign_effect(three_nodes(6.0, 4.0, 5.0), CampaignMoves()) == CampaignEffect()


@given(cores=st.tuples(*[st.floats(0.1, 9.0)] * 3), factor=st.floats(0.1, 1.0), target=st.sampled_from(NODES))
def test_all_spreads_change_with_the_load_of_the_whole_cluster(
    cores: tuple[float, float, float], factor: float, target: str
) -> None:
    """By the same factor, so that a comparison of them does not change."""
    spreads = []
    for scale in (1.0, factor):
        cluster = three_nodes(*(scale * each for each in cores))
        spreads.append((load_extremes(cluster, ()).spread.cpu, *cpu_of(campaign_effect(cluster, moved(target=target)))))
    assert spreads[1] == pytest.approx([factor * (spread or 0.0) for spread in spreads[0]], abs=1e-9)


def test_the_campaign_moves_are_those_of_the_last_campaign() -> None:
    """The evictions of the usual limits are none of them."""
    kept, uids = CampaignMoves(), []
    for number, campaign in enumerate(["chg-1", "", "chg-1", "chg-2"]):
        move = a_proposed_move(campaign=campaign, decided_at=NOW)
        kept = kept.with_replacement(move, uid=str(number), placed_on="node-c")
        uids.append((kept.name, [moved.replacement_uid for moved in kept.moves]))
    assert uids == [("chg-1", ["0"]), ("chg-1", ["0"]), ("chg-1", ["0", "2"]), ("chg-2", ["3"])]
    assert kept.moves[0].target == a_proposed_move().target
