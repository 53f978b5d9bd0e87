"""Campaigns: what their budget permits, what it does not, and why they end."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from binder.campaigns import a_campaign, an_effect, an_evaluation
from binder.ledgers import a_ledger, an_entry, an_eviction
from builders import NOW, a_workload, an_intent
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from equipoise.binder.decisions.admission import admit, campaign_of
from equipoise.binder.decisions.campaign import (
    GAINED,
    SPREAD_TOLERANCE,
    WORSE,
    ClusterEvaluation,
    continued,
    start_refusal,
)
from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    LateReplacements,
    Limits,
    Maintenance,
    UnusualRate,
)
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish, Proceed
from equipoise.binder.decisions.status import campaign_text
from equipoise.binder.state.campaign import EXHAUSTED, MAX_DURATION, Campaign, ExpectedSpread, name_problem
from equipoise.binder.state.ledger import Ledger, ReplacementStatus
from equipoise.binder.state.ledger_entry import LedgerEntry, new_entry
from equipoise.binder.state.ledger_json import decode, encode, summary
from equipoise.binder.state.ledger_times import with_possible_times
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.eviction.campaign_limits import CAMPAIGN_LIMITS
from equipoise.contracts.messages.descheduling import CampaignEffect, LoadExtremes
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.resources import Resources

LIMITS = Limits(startup_grace_period=Duration(0))
MANY = tuple(
    an_entry(f"db-{number}", workload=a_workload(f"db-{number}"), node=f"node-{number}", settled_at=NOW - 200,
             reserved_at=NOW - 200, recovered_at=NOW - 100)
    for number in range(30)
)  # fmt: skip
"""More evictions in ten minutes than the windows of the cluster and of the namespace allow."""


def admitted(ledger: Ledger, limits: Limits = LIMITS, *, dry_run: bool = False, **fields: Any) -> Any:
    return admit(an_intent(), an_eviction(**fields), ledger, limits, NOW, dry_run=dry_run)


def refused_by(ledger: Ledger, limits: Limits = LIMITS, **fields: Any) -> str:
    result = admitted(ledger, limits, **fields)
    assert isinstance(result, Finish)
    return result.limit or result.outcome.value


def test_a_campaign_replaces_the_windows_of_the_cluster_and_of_namespaces() -> None:
    assert refused_by(a_ledger(*MANY)) == "evictionsPerNamespace"
    assert isinstance(admitted(a_ledger(*MANY, campaign=a_campaign())), Proceed)
    replaced = {name for name, limit in LIMITS.table.items() if limit.replaced_by_campaign}
    assert replaced == CAMPAIGN_LIMITS


@pytest.mark.parametrize("name", [name for name, limit in LIMITS.table.items() if hasattr(limit, "max")])
def test_a_maximum_of_0_forbids_the_moves_of_a_campaign_too(name: str) -> None:
    """Of every limit, also of those that the budget replaces."""
    settings = {
        type(limit): field for field, limit in zip(LIMITS.__struct_fields__, LIMITS.table.values(), strict=False)
    }
    limit = LIMITS.table[name]
    strict = msgspec.structs.replace(LIMITS, **{settings[type(limit)]: msgspec.structs.replace(limit, max=0)})
    result = admitted(a_ledger(campaign=a_campaign()), strict)
    assert isinstance(result, Finish)
    assert name in result.detail


@pytest.mark.parametrize(
    "fields",
    [
        {"paused": True},
        {"ended_at": NOW - 1, "ended": "aborted"},
        {"used": 8},
        {"expires_at": NOW},
        {"expires_at": NOW + 1},  # of several API servers, one may be ahead
        {"started_at": NOW + 60},
        {"finding": "spread", "found": 1},
        {"observed_at": NOW - 1_800},
        {"observed_at": 0.0},
    ],
)
def test_a_campaign_that_does_not_run_changes_nothing(fields: dict[str, Any]) -> None:
    assert refused_by(a_ledger(*MANY, campaign=a_campaign(**fields))) == refused_by(a_ledger(*MANY))


def test_the_limit_of_workloads_and_the_maintenance_times_hold_in_a_campaign() -> None:
    closed = msgspec.structs.replace(
        LIMITS, maintenance=msgspec.convert({"only": [{"from": "20:00", "to": "21:00"}]}, Maintenance)
    )
    assert refused_by(a_ledger(an_entry("web-2"), campaign=a_campaign())) == "evictionsPerWorkload"
    assert refused_by(a_ledger(campaign=a_campaign()), closed) == "maintenance"


def test_a_pause_of_evictions_and_a_dry_run_use_no_campaign() -> None:
    assert refused_by(a_ledger(*MANY, campaign=a_campaign(), paused=True)) == "paused"
    assert isinstance(admitted(a_ledger(*MANY, campaign=a_campaign()), dry_run=True), Finish)


def test_the_last_move_of_a_budget_is_not_refused_by_its_own_reservation() -> None:
    """Its limits are checked again before the request."""
    own = an_entry(intent_id=an_intent().id, campaign="chg-1", settled_at=None, outcome=None)
    last = a_ledger(*MANY, own, campaign=a_campaign(used=8))
    assert isinstance(admitted(last), Proceed)
    assert campaign_of(an_intent(), last, NOW, dry_run=False) == "chg-1"
    without = a_ledger(*MANY, msgspec.structs.replace(own, campaign=""), campaign=a_campaign(used=7))
    assert campaign_of(an_intent(), without, NOW, dry_run=False) == ""


def reserve(ledger: Ledger, pod: str = "web-1", campaign: str = "chg-1") -> Ledger:
    intent = an_intent(pod)
    entry = new_entry(intent, NOW, workload=None, expires_at=NOW + 180, dry_run=False, campaign=campaign)
    return ledger.reserve(entry, epoch=intent.epoch)


def used(ledger: Ledger) -> int:
    assert ledger.campaign is not None
    return ledger.campaign.used


def test_a_reservation_uses_a_move_of_the_budget_and_a_returned_one_gives_it_back() -> None:
    reserved = reserve(a_ledger(campaign=a_campaign()))
    intent = an_intent("web-1").id
    assert used(reserved) == 1
    assert used(reserve(reserved, "web-2").release(intent)) == 1
    assert used(reserved.release(intent)) == 0
    assert used(reserved.settle(intent, Outcome.BLOCKED_PDB, NOW, counted=False)) == 0
    assert used(reserved.settle(intent, Outcome.FAILED, NOW)) == 1
    assert used(reserved.settle(intent, Outcome.EVICTED, NOW).release(intent)) == 1
    assert used(reserved.take_over(intent).release(intent)) == 1
    assert used(reserved.settle(intent, Outcome.EVICTED, NOW).retaining(600, NOW).pruned(NOW + 9_000)) == 1


def test_a_reservation_of_another_campaign_gives_nothing_back() -> None:
    reserved = reserve(a_ledger(campaign=a_campaign("chg-1")))
    other = msgspec.structs.replace(reserved, campaign=a_campaign("chg-2", used=3))
    assert used(other.release(an_intent("web-1").id)) == 3


def test_no_move_is_reserved_beyond_the_budget() -> None:
    with pytest.raises(ValueError, match="used its budget of 8 moves"):
        reserve(a_ledger(campaign=a_campaign(used=8)))
    with pytest.raises(ValueError, match="not in the ledger"):
        reserve(a_ledger())


# Why it ends


def after(campaign: Campaign, *evaluations: ClusterEvaluation, entries: Sequence[LedgerEntry] = ()) -> Campaign:
    ledger = a_ledger(*entries, campaign=campaign)
    for evaluation in evaluations or (None,):
        ledger = continued(ledger, evaluation, LIMITS, NOW)
    assert ledger.campaign is not None
    return ledger.campaign


def in_a_row(count: int, *arguments: Any, **fields: Any) -> list[ClusterEvaluation]:
    return [an_evaluation(*arguments, at=NOW - 500 + 100 * number, **fields) for number in range(count)]


def test_a_campaign_that_goes_as_planned_goes_on() -> None:
    campaign = after(a_campaign(used=5), *in_a_row(5, 0.42))
    assert (campaign.ended_at, campaign.finding, campaign.spread) == (None, "", 0.42)


@pytest.mark.parametrize(
    ("evaluation", "why"),
    [
        (
            {"spread": 0.5, "campaign": an_effect(0.4)},
            "stopped: the spread of cpu is 50.0 points: without 4 measured moves it would be 40.0, with all of them at "
            "their targets 40.0",
        ),
        ({"unscheduled": 2}, "stopped: 2 pods have no node, at its start 1 had none"),
        ({"nodes": 45}, "stopped: 5 of 50 nodes have left, and it was to fill 10"),
    ],
)
def test_a_campaign_stops_when_the_cluster_becomes_worse_than_planned(evaluation: dict[str, Any], why: str) -> None:
    """It permits nothing from the first evaluation on, and ends with the second one in a row."""
    spread = evaluation.pop("spread", 0.4)
    first = after(a_campaign(used=4), *in_a_row(WORSE - 1, spread, **evaluation))
    assert (first.ended_at, first.permits(NOW)) == (None, False)
    ended = after(a_campaign(used=4), *in_a_row(WORSE, spread, **evaluation))
    assert (ended.ended, ended.ended_at) == (why, NOW)
    better = after(a_campaign(used=4), *in_a_row(WORSE - 1, spread, **evaluation), an_evaluation(0.5))
    assert (better.ended, better.permits(NOW)) == ("", True)


@pytest.mark.parametrize(
    ("spread", "without", "planned", "finding"),
    [
        (0.9, 0.9, 0.9, ""),  # no move is measured yet, or all have other effects than on the extremes
        (0.9, 1.4, 0.9, ""),  # the load of the cluster has grown since the plan
        (0.45, 0.6, 0.4, ""),  # a few replacements are elsewhere
        (0.55, 0.6, 0.4, "spread"),  # most of them have returned
        (0.55, 0.4, 0.5, "spread"),  # the loads have changed so that the moves do harm
        (0.55, 0.4, 0.55, "spread"),
    ],
)
def test_only_moves_that_do_harm_or_no_good_stop_a_campaign(
    spread: float, without: float, planned: float, finding: str
) -> None:
    """The plan expects 40 points after four moves; the spread may be above it while the moves are right."""
    campaign = after(a_campaign(used=4), an_evaluation(spread, campaign=an_effect(without, planned)))
    assert (campaign.finding, campaign.spread) == (finding, spread)


@given(
    spreads=st.tuples(*[st.floats(0, 1)] * 3),
    factor=st.floats(0.05, 1),
    used=st.integers(0, 7),
    expected=st.floats(0, 1),
)
def test_a_change_of_all_loads_by_one_factor_changes_no_decision(
    spreads: tuple[float, float, float], factor: float, used: int, expected: float
) -> None:
    """Whatever the plan expected, and whether the moves are right or not. A target is in points, by its definition."""
    margin = spreads[0] - min(spreads[1:]) - SPREAD_TOLERANCE * spreads[1]
    assume(abs(margin) > 1e-6)  # rounding of floats
    campaign = a_campaign(used=used, expected=[ExpectedSpread(moves=0, spread=expected)])
    results = []
    for scale in (1.0, factor):
        spread, without, planned = (scale * each for each in spreads)
        evaluations = in_a_row(WORSE, spread, campaign=an_effect(without, planned))
        result = after(campaign, *evaluations)
        results.append((result.finding, result.stopped, result.permits(NOW)))
    assert results[0] == results[1]
    assert results[0][1] is (margin > 0)


def test_what_is_not_known_is_not_worse() -> None:
    """No load, moves of another campaign or none, and a plan without the number of nodes or pods."""
    unknown = a_campaign(expected=(), unscheduled=None, nodes=0)
    assert after(unknown, *in_a_row(3, 0.9, unscheduled=99, nodes=1)).finding == ""
    assert after(a_campaign(), *in_a_row(3, None, campaign=an_effect(0.1))).finding == ""
    assert after(a_campaign(), *in_a_row(3, 0.9, campaign=CampaignEffect(campaign="chg-1"))).finding == ""
    assert after(a_campaign(), *in_a_row(3, 0.9, campaign=an_effect(0.1, campaign="chg-0"))).finding == ""


@pytest.mark.parametrize("resource", ["further", "amount", "gpu", ""])
def test_a_resource_that_somebody_has_written_into_the_ledger_has_no_spread(resource: str) -> None:
    """Evaluations have no spread of further resources: whatever the name is, the binder goes on."""
    spread = Resources(cpu=0.9, further={"network": 0.9})
    effect = CampaignEffect(campaign="chg-1", without_moves=spread, as_planned=spread)
    evaluations = in_a_row(3, campaign=effect, loads=LoadExtremes(highest=spread, spread=spread))
    assert after(a_campaign(resource=resource), *evaluations).spread is None


def test_without_the_effect_of_its_moves_an_evaluation_supervises_no_campaign() -> None:
    """Those of earlier versions do not have it."""
    assert after(a_campaign(), ClusterEvaluation(evaluated_at=NOW)).observed_at == NOW - 550
    assert after(a_campaign(), an_evaluation(campaign=None)).observed_at == NOW - 550


def test_an_evaluation_counts_once_unless_it_is_old_or_of_the_future() -> None:
    """Every binder compares the campaign with the same messages. The last one before its start counts: the plan was
    made after it."""
    worse = an_evaluation(0.9, campaign=an_effect(0.6))
    assert after(a_campaign(), worse, worse, worse).found == 1
    new = a_campaign(observed_at=0.0)
    assert after(new, an_evaluation(0.6, at=NOW - 700)).permits(NOW)
    assert after(new, an_evaluation(0.6, at=NOW - 1_201)).observed_at == 0.0
    assert after(new, an_evaluation(0.6, at=NOW + 60)).observed_at == 0.0


def test_a_campaign_ends_when_nothing_is_left_to_move() -> None:
    """Until then it goes on: a workload may be in cooldown."""
    waiting = after(a_campaign(), *in_a_row(GAINED - 1, exhausted=True))
    assert (waiting.finding, waiting.ended_at, waiting.permits(NOW)) == (EXHAUSTED, None, True)
    ended = after(a_campaign(), *in_a_row(GAINED, exhausted=True))
    assert ended.ended == f"nothing more to gain: no pod was proposed in {GAINED} evaluations"


def test_a_campaign_ends_at_its_target_budget_and_time() -> None:
    assert after(a_campaign(target_spread=0.3), an_evaluation(0.3)).ended.startswith("reached its target")
    assert after(a_campaign(used=8)).ended == "used its budget of 8 moves"
    assert after(a_campaign(used=3, expires_at=NOW)).ended == "expired after 3 of 8 moves"
    paused = a_campaign(paused=True, expires_at=NOW)
    assert after(paused).ended == "expired after 0 of 8 moves"


def test_a_used_budget_ends_the_campaign_once_no_reservation_can_return() -> None:
    open_entry = an_entry(campaign="chg-1", settled_at=None, outcome=None)
    assert after(a_campaign(used=8), entries=[open_entry]).ended == ""
    assert after(a_campaign(used=8), entries=[an_entry(campaign="chg-1")]).ended.startswith("used its budget")


def test_failed_and_late_replacements_of_its_pods_stop_a_campaign() -> None:
    failing = an_entry(campaign="chg-1", failing_since=NOW, failure="quota")
    assert after(a_campaign(), entries=[failing]).ended == (
        "stopped: the replacement of shop/web-1 cannot be created (quota)"
    )
    assert after(a_campaign(), entries=[msgspec.structs.replace(failing, campaign="")]).ended == ""
    late = [an_entry(f"web-{number}", campaign="chg-1", settled_at=NOW - 400) for number in range(3)]
    assert after(a_campaign(), entries=late[:2]).ended == ""
    assert after(a_campaign(), entries=late).ended == "stopped: 3 replacements are not ready after 5m"
    tolerant = msgspec.structs.replace(LIMITS, late_replacements=LateReplacements(max="unlimited"))
    assert continued(a_ledger(*late, campaign=a_campaign()), None, tolerant, NOW).campaign == a_campaign()


def test_an_ended_campaign_does_not_change() -> None:
    ended = a_campaign().ending("aborted", NOW - 5)
    assert after(ended, *in_a_row(5, 0.9, campaign=an_effect(0.6))) == ended
    assert continued(a_ledger(), an_evaluation(), LIMITS, NOW) == a_ledger()


# Names, storage, text


def test_a_second_campaign_is_refused_by_name() -> None:
    running = a_ledger(campaign=a_campaign("chg-1", used=2))
    assert start_refusal(running, "chg-2", NOW) == (
        "campaign chg-1 is running (2 of 8 moves): wait until it ends, or `equipoise rebalance --abort`"
    )
    ended = a_ledger(campaign=a_campaign("chg-1").ending("aborted", NOW))
    assert start_refusal(ended, "chg-2", NOW) == start_refusal(a_ledger(), "chg-1", NOW) == ""
    assert "an earlier campaign has the name chg-1" in start_refusal(ended, "chg-1", NOW)
    assert "an earlier campaign" in start_refusal(a_ledger(an_entry(campaign="chg-0")), "chg-0", NOW)
    assert start_refusal(a_ledger(campaign=a_campaign(expires_at=NOW)), "chg-2", NOW) == ""
    assert "evictions are paused (a release)" in start_refusal(
        a_ledger(paused=True, pause_reason="a release"), "a", NOW
    )


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a.b", "a b", "é", "a" * 64, "a\n"])
def test_other_names_than_those_of_objects_are_refused(name: str) -> None:
    assert name_problem(name)
    assert start_refusal(a_ledger(), name, NOW)
    assert [name_problem(valid) for valid in ("chg-4711", "a", "a" * 63)] == ["", "", ""]


@given(st.builds(a_campaign, used=st.integers(0, 9), finding=st.sampled_from(["", "spread"]), paused=st.booleans()))
def test_a_campaign_is_read_as_it_was_written(campaign: Campaign) -> None:
    ledger = a_ledger(an_entry(campaign="chg-1"), campaign=campaign)
    assert decode(encode(ledger)) == ledger
    assert "campaign: chg-1" in summary(ledger)


def test_times_of_a_wrong_clock_leave_a_campaign_no_more_time() -> None:
    ahead = a_ledger(campaign=a_campaign(started_at=NOW + 86_400, expires_at=NOW + 90_000, observed_at=NOW + 86_500))
    corrected = with_possible_times(ahead, NOW).campaign
    assert corrected is not None
    assert (corrected.started_at, corrected.expires_at, corrected.observed_at) == (NOW, NOW + 3_600, NOW)
    endless = with_possible_times(a_ledger(campaign=a_campaign(expires_at=NOW + 9e7)), NOW).campaign
    assert endless is not None
    assert endless.expires_at == NOW + MAX_DURATION


def test_the_text_of_a_campaign_has_its_progress_and_state() -> None:
    campaign = a_campaign(used=4, spread=0.45, started_by="alice")
    start = "campaign chg-1, started by alice: 4 of 8 moves, spread of cpu 45.0 points (planned 40.0)"
    assert campaign_text(campaign) == f"{start}, running until 2027-01-15 09:00:00 UTC"
    held = msgspec.structs.replace(campaign, finding="spread", detail="it is too high")
    assert campaign_text(held).endswith("nothing beyond the usual limits because it is too high")
    assert "paused" in campaign_text(msgspec.structs.replace(campaign, paused=True))
    assert campaign_text(a_campaign(observed_at=0.0)).endswith("no evaluation was compared with its plan yet")
    assert campaign_text(campaign.ending("aborted", NOW)).endswith("ended at 2027-01-15 08:00:00 UTC: aborted")


# Laws

STRICT = Limits(
    evictions_per_workload=EvictionsPerWorkload(max=2, window=Duration(30)),
    evictions_per_namespace=EvictionsPerNamespace(max=2, window=Duration(40)),
    evictions_per_cluster=EvictionsPerCluster(max=3, window=Duration(50)),
    unusual_rate=UnusualRate(max="unlimited"),
    rate=EvictionRate(max="unlimited"),
    migration_timeout=Duration(25),
    startup_grace_period=Duration(0),
)


class BindersInCampaigns(RuleBasedStateMachine):
    """Binders that reserve, settle, return and crash in any order, while campaigns start, pause and end."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.number = 0
        self.ledger = Ledger(created_at=NOW, started_at=NOW)
        self.intents: dict[str, ProposedEviction] = {}
        self.evicted: dict[str, tuple[float, ProposedEviction, str]] = {}
        """By intent: the time, and the campaign that its entry had."""

        self.budgets: dict[str, tuple[int, float]] = {}
        """The budget and end of each campaign."""

    @rule(seconds=st.floats(0.1, 30))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(budget=st.integers(1, 5), lasts=st.floats(5, 120))
    def start(self, budget: int, lasts: float) -> None:
        self.number += 1
        name = f"chg-{self.number}"
        if not start_refusal(self.ledger, name, self.now):
            campaign = Campaign(
                name=name, started_at=self.now, expires_at=self.now + lasts, budget=budget, observed_at=self.now
            )
            self.ledger = msgspec.structs.replace(self.ledger, campaign=campaign)
            self.budgets[name] = budget, self.now + lasts

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        if self.ledger.campaign is not None:
            campaign = msgspec.structs.replace(self.ledger.campaign, paused=paused)
            self.ledger = msgspec.structs.replace(self.ledger, campaign=campaign)

    @rule()
    def watch(self) -> None:
        self.ledger = continued(self.ledger, None, STRICT, self.now)

    @rule(workload=st.sampled_from(["web", "db", "cache"]), namespace=st.sampled_from(["shop", "bank"]))
    def propose(self, workload: str, namespace: str) -> None:
        self.number += 1
        intent = an_intent(f"pod-{self.number}", namespace=namespace, decided_at=self.now, expires_at=self.now + 20)
        eviction = an_eviction(
            namespace=namespace, node=f"node-{self.number}", workload=a_workload(workload, namespace), replicas=50
        )
        if not isinstance(admit(intent, eviction, self.ledger, STRICT, self.now, dry_run=False), Proceed):
            return
        name = campaign_of(intent, self.ledger, self.now, dry_run=False)
        entry = new_entry(
            intent, self.now, workload=eviction.workload, expires_at=intent.expires_at, dry_run=False, campaign=name
        )
        pruned = self.ledger.retaining(STRICT.retention, self.now).pruned(self.now)
        self.ledger = pruned.reserve(entry, epoch=intent.epoch)
        self.intents[intent.id] = eviction

    def _open(self) -> list[str]:
        return [entry.intent_id for entry in self.ledger.entries if entry.outcome is None]

    @precondition(lambda self: self._open())
    @rule(data=st.data(), known=st.booleans())
    def evict(self, data: st.DataObject, known: bool) -> None:
        """`known`: whether the outcome is recorded at once. Otherwise the binder has crashed after the request."""
        intent = data.draw(st.sampled_from(self._open()))
        entry = self.ledger.entry(intent)
        assert entry is not None
        if intent not in self.evicted and self.now < entry.expires_at:
            self.evicted[intent] = self.now, self.intents[intent], entry.campaign
        if known:
            outcome = Outcome.EVICTED if intent in self.evicted else Outcome.FAILED
            self.ledger = self.ledger.settle(intent, outcome, self.now)

    @precondition(lambda self: any(intent not in self.evicted for intent in self._open()))
    @rule(data=st.data(), released=st.booleans())
    def refuse(self, data: st.DataObject, released: bool) -> None:
        """The API server refuses the only request."""
        intent = data.draw(st.sampled_from([each for each in self._open() if each not in self.evicted]))
        if released:
            self.ledger = self.ledger.release(intent)
        else:
            self.ledger = self.ledger.settle(intent, Outcome.BLOCKED_PDB, self.now, counted=False)

    @precondition(lambda self: self.ledger.entries)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries))
        self.ledger = self.ledger.with_replacements({entry.intent_id: ReplacementStatus(state="ready")}, self.now)

    def _most(self, window: float, key: Any, *, usual: bool = False) -> int:
        """The most evictions of one key in any window; `usual`: of those outside of campaigns."""
        events = [(at, key(eviction)) for at, eviction, name in self.evicted.values() if not (usual and name)]
        return max(
            (sum(of == key and at <= other < at + window for other, of in events) for at, key in events), default=0
        )

    @invariant()
    def no_campaign_moves_more_than_its_budget(self) -> None:
        for name, (budget, _) in self.budgets.items():
            assert sum(campaign == name for _, _, campaign in self.evicted.values()) <= budget

    @invariant()
    def the_limit_of_workloads_holds_in_campaigns(self) -> None:
        assert self._most(30, lambda eviction: str(eviction.workload)) <= 2

    @invariant()
    def the_usual_limits_hold_for_what_no_campaign_permits(self) -> None:
        assert self._most(40, lambda eviction: eviction.namespace, usual=True) <= 2
        assert self._most(50, lambda eviction: "cluster", usual=True) <= 3


BindersInCampaigns.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestBindersInCampaigns = BindersInCampaigns.TestCase
