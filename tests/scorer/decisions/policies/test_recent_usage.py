"""Scores and hints of a node on which new pods use more than is expected of them."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_batch_pod, a_node_utilization, a_placed_pod, a_placement
from hypothesis import given
from hypothesis import strategies as st
from scorer.clusters import a_cycle, a_pod
from scorer.hinted import WEB, HintedCluster, a_pod_of, avoided, preferred

from equipoise.binder.decisions.destination_check import predicted_load
from equipoise.binder.state.cluster_state import NodeState
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.score import ExplainRequest
from equipoise.contracts.messages.utilization import NodeUtilization, RecentUsage, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.explanations.explanation import explain
from equipoise.scorer.decisions.load_correction import corrected_load
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.load_aware import LoadAware
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.scoring_state import ScoringState

LOAD = LoadSettings()
BASE = Resources(cpu=20.0, memory=64 * GIB)
DEVIATION = Resources(cpu=1.0, memory=GIB)
BEFORE, BURST, SECONDS = 1.0, 14.0, 90.0
"""Cores that the node used before, and that the new pods use; how long ago they landed."""


def new_pods() -> list[PlacedPod]:
    """28 pods that request a hundredth of what each uses."""
    return [
        a_placed_pod(
            f"new-{number}",
            placed_at=NOW - SECONDS - 2,
            running_since=NOW - SECONDS,
            requests=Resources(cpu=0.005, memory=GIB / 64),
            limits=Resources(),
            workload=None,
        )
        for number in range(28)
    ]


def the_victim(node: str = "victim", *, recent: bool = True, **fields: Any) -> NodeUtilization:
    """Every window contains 90 s of the burst; no new pod is measured."""
    windows = {
        window.name: WindowUsage(
            sampled_at=NOW,
            mean=Resources(cpu=BEFORE + BURST * SECONDS / window.length, memory=8 * GIB),
            deviation=DEVIATION,
        )
        for window in LOAD.windows
    }
    usage = RecentUsage(length=45.0, sampled_at=NOW, mean=Resources(cpu=BEFORE + BURST, memory=9 * GIB))
    defaults = {"base": BASE, "sampled_at": NOW, "queried_at": NOW, "windows": windows, "sequence": 9}
    return a_node_utilization(node, **(defaults | {"recent": usage if recent else None} | fields))


def load_of(utilization: NodeUtilization, placement: NodePlacement, load: LoadSettings = LOAD) -> Any:
    return corrected_load(utilization, placement, pod_usage({}, load=load, now=NOW), load=load)[0]


def test_a_node_counts_as_it_was_measured_in_the_last_scrapes_while_pods_are_new() -> None:
    """Every window has it. Otherwise 28 pods that request too little would be nearly invisible."""
    placement = a_placement("victim", new_pods())

    assert load_of(the_victim(), placement)[:, 0].tolist() == pytest.approx([0.75] * 4)
    assert load_of(the_victim(recent=False), placement)[0, 0] == pytest.approx(0.265, abs=0.001)


def test_pods_that_the_last_scrapes_do_not_contain_are_added() -> None:
    """A pod that was placed just now is added to any window, with what is expected of it."""
    arriving = a_placed_pod("late", placed_at=NOW - 1, running_since=NOW, requests=Resources(cpu=2.0, memory=GIB))
    placement = a_placement("victim", [*new_pods(), arriving])

    assert load_of(the_victim(), placement)[:, 0].tolist() == pytest.approx([0.85] * 4)


def test_the_load_does_not_change_when_the_pods_are_measured_in_the_window() -> None:
    """Then the correction counts them in full, and the last scrapes count no more."""
    later = NOW + 205.0
    pods = new_pods()
    windows = {
        window.name: WindowUsage(
            sampled_at=later, mean=Resources(cpu=BEFORE + BURST * min(1.0, 295.0 / window.length), memory=8 * GIB)
        )
        for window in LOAD.windows
    }
    usage = {pod.uid: Resources(cpu=BURST / len(pods), memory=GIB / 64) for pod in pods}
    recent = RecentUsage(length=45.0, sampled_at=later, mean=Resources(cpu=BEFORE + BURST, memory=8 * GIB))
    placement = a_placement("victim", pods)

    for known in (recent, None):
        measured = the_victim(windows=windows, sampled_at=later, queried_at=later, pods=usage, recent=known)
        assert load_of(measured, placement)[:, 0].tolist() == pytest.approx([0.75] * 4, abs=0.002)


def test_a_lower_recent_usage_changes_nothing() -> None:
    """Less than a window shows may be chance."""
    placement = a_placement("victim", new_pods())
    low = RecentUsage(length=45.0, sampled_at=NOW, mean=Resources(cpu=0.1, memory=0.0))

    found = load_of(msgspec.structs.replace(the_victim(), recent=low), placement)

    assert found.tolist() == pytest.approx(load_of(the_victim(recent=False), placement))


@given(cpu=st.one_of(st.none(), st.floats(0.0, 30.0), st.just(float("nan"))), missing=st.booleans())
def test_an_unknown_window_stays_unknown_and_no_load_is_lower(cpu: float | None, missing: bool) -> None:
    """What is not measured over a window is not known by a few scrapes."""
    recent = RecentUsage(length=45.0, sampled_at=NOW, mean=Resources(cpu=cpu))
    victim = msgspec.structs.replace(the_victim(), recent=recent)
    if missing:
        victim = msgspec.structs.replace(victim, windows={"1d": victim.windows["1d"]})
    placement = a_placement("victim", new_pods())

    found, without = load_of(victim, placement), load_of(msgspec.structs.replace(victim, recent=None), placement)

    assert np.isnan(found).tolist() == np.isnan(without).tolist()
    assert (np.isnan(found) | (found >= without)).all()


def test_batch_work_counts_in_part_in_the_last_scrapes_too() -> None:
    """A fifth of its cores."""
    job = a_batch_pod("job-1", placed_at=NOW - 90, running_since=NOW - 90)
    victim = the_victim(pods={job.uid: Resources(cpu=10.0, memory=GIB)})
    placement = a_placement("victim", [job])
    usage_of = pod_usage({}, load=LOAD, now=NOW)

    found = corrected_load(victim, placement, usage_of, load=LOAD, batch_work=[job])[0]

    assert found[:, 0].tolist() == pytest.approx([0.35] * 4)


POLICIES: list[ScoringPolicy] = [
    ProfilePolicy(), WaterLevel(), LoadAware(), RiskBalancing(), TargetLoadPacking()
]  # fmt: skip


def a_state(policy: ScoringPolicy, *, recent: bool) -> ScoringState:
    """The victim, and another node that uses half of its cores."""
    state = ScoringState(LOAD, ScoringSettings(policy=policy))
    state.nodes.on_placement(a_placement("victim", new_pods()), NOW)
    state.nodes.on_placement(a_placement("other"), NOW)
    windows = {
        window.name: WindowUsage(sampled_at=NOW, mean=Resources(cpu=10.0, memory=8 * GIB), deviation=DEVIATION)
        for window in LOAD.windows
    }
    state.nodes.on_utilization(the_victim(recent=recent), NOW)
    other = a_node_utilization("other", base=BASE, windows=windows, system=Resources(cpu=10.0, memory=8 * GIB))
    state.nodes.on_utilization(other, NOW)
    state.on_cycle(a_cycle(2, queried_at=NOW), NOW)
    return state


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.policy_name())
def test_every_policy_prefers_another_node_to_that_of_the_burst(policy: ScoringPolicy) -> None:
    """90 s after it. Before, all of them preferred the victim."""
    names = ["victim", "other"]

    def best(*, recent: bool) -> str:
        return explain(a_state(policy, recent=recent), ExplainRequest(pod=a_pod(), nodes=names), NOW).nodes[0].node

    assert best(recent=True) == "other"
    assert best(recent=False) == "victim"


def test_hints_do_not_point_to_the_node_of_the_burst() -> None:
    """Most of all not to it: it is avoided."""

    def hint(*, recent: bool) -> tuple[list[str], list[str]]:
        cluster = HintedCluster(LoadAware(window="5m"))
        cluster.node("victim", pods=new_pods())
        for number, cores in enumerate((5.0, 4.5, 4.0)):
            cluster.node(f"node-{number}", cores, [a_pod_of(WEB, "web-1")] if number == 0 else [])
        cluster.scoring.nodes.on_utilization(the_victim(recent=recent, sequence=99), NOW)
        cluster.measured()
        found = cluster.update()[WEB]
        return preferred(found), avoided(found)

    assert "victim" not in hint(recent=True)[0]
    assert hint(recent=True)[1] == ["victim"]
    assert hint(recent=False)[0][0] == "victim"


def test_an_explanation_shows_the_last_scrapes() -> None:
    explained = explain(a_state(WaterLevel(), recent=True), ExplainRequest(node="victim"), NOW)
    victim = next(node for node in explained.nodes if node.node == "victim")

    assert victim.recent == the_victim().recent
    assert victim.windows[0].load.cpu == pytest.approx(0.75)


def test_a_new_pod_is_scored_without_itself_on_its_own_node() -> None:
    """What is expected of it is no part of the last scrapes then."""
    pod = a_placed_pod(
        "big", placed_at=NOW - 92, running_since=NOW - 90, requests=Resources(cpu=12.0, memory=GIB), workload=None
    )
    for policy in (WaterLevel(), ProfilePolicy()):
        state = ScoringState(LOAD, ScoringSettings(policy=policy))
        state.nodes.on_placement(a_placement("victim", [pod]), NOW)
        state.nodes.on_utilization(the_victim(system=Resources(cpu=1.0, memory=8 * GIB)), NOW)
        without = state.nodes.without("victim", pod, NOW)
        assert without is not None
        _, nodes, _ = state.inputs(a_pod(), ["victim"], NOW, without=without)

        assert nodes.load[0, 0, 0] == pytest.approx(3.0 / 20.0)
        if nodes.daily is not None:
            assert nodes.daily.share[0, 0].tolist() == pytest.approx([3.0 / 20.0] * 24)


def test_evictions_are_not_based_on_the_last_scrapes() -> None:
    """They vary too much for that."""
    found = [
        predicted_load(
            NodeState(placement=a_placement("victim", new_pods()), utilization=the_victim(recent=recent)),
            Resources(cpu=0.0, memory=0.0), pod_usage({}, load=LOAD, now=NOW), LOAD, NOW, 0.0,
        )
        for recent in (True, False)
    ]  # fmt: skip

    assert found[0] == found[1]
