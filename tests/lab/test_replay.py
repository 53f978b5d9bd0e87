"""A replay as a whole: scenarios, who decides, what is judged."""

import math

import msgspec
import pytest
from lab.traces import a_trace

from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.lab.model.trace import AntiAffinity, Trace
from equipoise.lab.replay import GREEDY, STOCK, Replay, ReplayPlan, Settings
from equipoise.lab.results import Run, Scenario
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

DAYTIME = tuple(200.0 + 1_800.0 * (32 <= step < 64) for step in range(96))
NIGHT = tuple(200.0 + 1_800.0 * (step < 32) for step in range(96))
IDLE = (50.0,) * 96


def replayed(
    trace: Trace,
    scenario: Scenario,
    policy: str = STOCK,
    *,
    descheduler: bool = False,
    seed: int = 1,
    settings: Settings | None = None,
) -> Run:
    scoring: ScoringPolicy | None = SINGLE_POLICIES[policy]() if policy in SINGLE_POLICIES else None
    plan = ReplayPlan(
        scenario=scenario, policy=policy, scoring=scoring, descheduler=descheduler, seed=seed, missing=0.0
    )
    return Replay(trace, plan, settings).run()


def a_lopsided_trace() -> Trace:
    """Two nodes run hot by what their pods really use, two are idle; requests are the same everywhere."""
    return a_trace(curves=((2_000.0,) * 96, IDLE), replicas=(6, 6), placed=(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3))


def test_the_given_placement_is_judged_as_it_is() -> None:
    """Six cores of eight are 75 % on the hot nodes, 0.15 of eight on the idle ones, in every hour."""
    figures = replayed(a_lopsided_trace(), "given").figures

    assert pytest.approx(75.0 - 1.875, abs=0.01) == figures.peak_spread == figures.median_spread == figures.worst_spread
    assert (0, 0, 0.0) == (figures.moved, figures.unplaced, figures.hours_above_80)


def test_pods_without_a_place_are_given_one_before_anybody_watches() -> None:
    """A trace of no placement begins with what the stock scheduler makes of it, whoever scores later."""
    trace = a_trace(curves=((2_000.0,) * 96, IDLE), replicas=(6, 6))

    stock, scored = (replayed(trace, "given", policy).figures for policy in (STOCK, "profile"))

    assert 0 == scored.unplaced
    assert stock.peak_spread == scored.peak_spread


def test_the_same_plan_gives_the_same_run() -> None:
    """Chance comes from the seed alone."""
    first, second = (replayed(a_lopsided_trace(), "churn", "profile") for _ in range(2))

    assert first.spread == second.spread


def test_every_pod_of_a_fresh_fleet_is_placed_by_its_policy() -> None:
    """`profile` puts day and night together, where kube-scheduler sees only equal requests."""
    trace = a_trace(curves=(DAYTIME, NIGHT), replicas=(8, 8))

    profile = replayed(trace, "fresh", "profile").figures

    assert 0 == profile.unplaced
    assert profile.worst_spread <= 2.0


def test_the_greedy_reference_levels_what_stock_leaves_uneven() -> None:
    """It knows what pods will use; the stock scheduler does not."""
    hot = (3_000.0,) * 96
    trace = a_trace(nodes=8, curves=(*[hot] * 12, *[IDLE] * 36), replicas=[1] * 48, request_cpu_milli=100)

    greedy, stock = (replayed(trace, "fresh", policy).figures for policy in (GREEDY, STOCK))

    assert greedy.peak_spread < stock.peak_spread / 2


def test_a_churning_day_replaces_every_pod_and_keeps_their_number() -> None:
    """Roll-outs and scaling are over when the judged day begins: it has all replicas on nodes again."""
    trace = a_lopsided_trace()

    run = replayed(trace, "churn", "profile")

    total = run.after.sum(axis=0) / 100.0 * 8.0
    assert pytest.approx([6 * 2.0 + 6 * 0.05] * 24, rel=1e-4) == total.tolist()
    assert run.figures.peak_spread < replayed(trace, "given").figures.peak_spread / 2


def test_pods_that_fit_nowhere_are_counted() -> None:
    """Nine pods of four requested cores on four nodes of eight leave one without."""
    trace = a_trace(curves=(IDLE,), replicas=(9,), request_cpu_milli=4_000)

    assert 1 == replayed(trace, "fresh").figures.unplaced


@pytest.mark.parametrize("policy", [STOCK, GREEDY, "profile", "water_level"])
def test_no_placement_breaks_anti_affinity(policy: str) -> None:
    """One of these pods a node; the fifth of five finds none."""
    rule = AntiAffinity(beside=0, limited=0, most=1)
    trace = a_trace(curves=(IDLE, IDLE), replicas=(5, 8), rules=(rule,))

    figures = replayed(trace, "fresh", policy).figures

    assert (0, 1) == (figures.violations, figures.unplaced)


def test_nothing_comes_to_a_tainted_node() -> None:
    """What is not tolerated keeps every scheduler off."""
    run = replayed(a_trace(replicas=(9,), tainted=(0,)), "fresh", "profile")

    highest = dict(zip(run.node_names, run.after.max(axis=1).tolist(), strict=True))
    assert 0.0 == highest.pop("node-0")
    assert min(highest.values()) > 0.0


def test_the_descheduler_levels_a_given_placement_within_its_limits() -> None:
    """Pods leave the hot nodes, a few at a time, and do not come back."""
    settings = Settings(
        thresholds=Thresholds(high=ResourceThresholds(cpu=60, memory=95), low=ResourceThresholds(cpu=45, memory=90))
    )

    before = replayed(a_lopsided_trace(), "given").figures
    after = replayed(a_lopsided_trace(), "given", "water_level", descheduler=True, settings=settings).figures

    assert 2 <= after.moved <= 6
    assert after.peak_spread < before.peak_spread - 20
    assert 0 == after.violations
    assert pytest.approx(after.moved / 48, abs=0.01) == after.moves_per_hour


def test_a_workload_with_too_few_replicas_stays() -> None:
    """Its eviction would be an outage."""
    trace = a_trace(curves=((7_000.0,) * 96, IDLE), replicas=(1, 4), placed=(0, 1, 2, 3, 1))

    assert 0 == replayed(trace, "given", "water_level", descheduler=True).figures.moved


def test_work_beyond_a_nodes_cores_is_lost() -> None:
    """Ten cores are asked of eight on one node: a fifth of all work is not done."""
    trace = a_trace(curves=((5_000.0,) * 96,), replicas=(2,), placed=(0, 0))

    figures = replayed(trace, "given").figures

    assert math.isclose(0.2, figures.work_lost, abs_tol=1e-4)
    assert (24, 24) == (figures.hours_above_80, figures.hours_above_90)


@pytest.mark.parametrize("policy", [STOCK, "profile"])
def test_roll_outs_of_a_full_fleet_leave_no_pod_too_many(policy: str) -> None:
    """A new pod that waits for room is no reason to make another, and what is scaled down stays down for its time."""
    trace = a_trace(curves=(IDLE, IDLE), replicas=(8, 7), placed=[0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3, 0, 1, 2],
                    request_cpu_milli=2_000)  # fmt: skip

    run = replayed(trace, "churn", policy)

    assert 0 == run.figures.unplaced
    total = run.after.sum(axis=0) / 100.0 * 8.0
    assert pytest.approx([15 * 0.05] * 24, rel=1e-3) == total.tolist()


@pytest.mark.parametrize(("days", "sample"), [(1, "in"), (2, "in"), (2.5, "in"), (3, "out")])
def test_only_days_that_were_not_learned_are_out_of_sample(days: float, sample: str) -> None:
    """One to learn, one to act, and one to judge: a shorter trace comes round to what was learned."""
    curve = [IDLE[0] + step % 96 for step in range(round(96 * days))]

    run = replayed(a_trace(curves=(curve,), placed=(0, 1, 2, 3)), "given")

    assert sample == run.figures.sample
    assert 24 == len(run.spread)


def test_steps_that_do_not_divide_a_day_are_refused() -> None:
    """Their hours would not be the day's."""
    trace = msgspec.structs.replace(a_trace(), seconds_per_step=7_000.0)

    with pytest.raises(ValueError, match="do not divide a day"):
        replayed(trace, "given")
