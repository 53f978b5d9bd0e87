"""Which planned moves the limits allow now."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerWorkload, Limits, Maintenance
from equipoise.binder.decisions.limits.rule import UNLIMITED
from equipoise.binder.decisions.outlook import refusals_now, wave_ends
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.plan import PlannedMove
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources

ONE_IN_TEN_MINUTES = Limits(evictions_per_cluster=EvictionsPerCluster(max=1))


def a_move(number: int, **fields: Any) -> PlannedMove:
    defaults: dict[str, Any] = {
        "strategy": "low_node_load",
        "namespace": "shop",
        "pod": f"web-{number}",
        "workload": a_workload(f"app-{number}"),
        "node": f"node-{number}",
        "target": "node-b",
        "reason": "hot",
        "expected_reduction": Resources(cpu=1.0),
        "sampled_at": NOW,
    }
    return PlannedMove(**(defaults | fields))


def test_each_allowed_move_counts_for_the_next() -> None:
    """One eviction is allowed: the second move has to wait until the window ends."""
    first, second = refusals_now([a_move(1), a_move(2)], a_ledger(), ONE_IN_TEN_MINUTES, NOW, dry_run=False)

    assert first == ""
    assert second.startswith("limits.evictionsPerCluster: evictions in the cluster in 10m: 1 of 1 allowed, again at ")


def test_an_exhausted_limit_allows_no_move() -> None:
    """An eviction a minute ago has exhausted it."""
    ledger = a_ledger(an_entry("db-1", workload=a_workload("db"), settled_at=NOW - 60, recovered_at=NOW - 30))
    whys = refusals_now([a_move(1), a_move(2)], ledger, ONE_IN_TEN_MINUTES, NOW, dry_run=False)

    assert all(why.startswith("limits.evictionsPerCluster") for why in whys)


def test_dry_runs_count_for_dry_runs_only() -> None:
    """Dry runs take nothing from real moves."""
    ledger = a_ledger(an_entry("db-1", dry_run=True, outcome=Outcome.DRY_RUN, settled_at=NOW - 60))

    assert refusals_now([a_move(1)], ledger, ONE_IN_TEN_MINUTES, NOW, dry_run=False) == [""]
    assert refusals_now([a_move(1)], ledger, ONE_IN_TEN_MINUTES, NOW, dry_run=True) != [""]


def test_a_move_that_waits_for_room_is_neither_refused_nor_counted() -> None:
    """It is proposed by a later evaluation."""
    moves = [a_move(1, later=True), a_move(2)]

    assert refusals_now(moves, a_ledger(), ONE_IN_TEN_MINUTES, NOW, dry_run=False) == ["", ""]


@pytest.mark.parametrize(
    ("pods", "allowed"), [(57, 1), (250, 2), (None, 3)], ids=["1 % is less than 1", "1 %", "not counted"]
)
def test_a_share_of_the_pods_is_at_least_one_eviction(pods: int | None, allowed: int) -> None:
    """Also if limits are halved after a start; a share of an unknown number is not checked."""
    limits = Limits(unusual_rate=msgspec.structs.replace(Limits().unusual_rate, max=UNLIMITED))
    moves = [a_move(number) for number in range(3)]
    whys = refusals_now(moves, a_ledger(), limits, NOW, dry_run=False, cluster_pods=pods)
    halved = refusals_now(moves, a_ledger(started_at=NOW - 60), limits, NOW, dry_run=False, cluster_pods=57)

    assert whys.count("") == allowed
    assert halved.count("") == 1


def test_other_limits_are_checked_too() -> None:
    """A workload of two moves, and times without evictions."""
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=1))
    moves = [a_move(1), a_move(2, workload=a_workload("app-1"))]
    closed = Limits(maintenance=msgspec.convert({"only": [{"from": "00:00", "to": "00:01"}]}, Maintenance))

    assert "limits.evictionsPerWorkload" in refusals_now(moves, a_ledger(), limits, NOW, dry_run=False)[1]
    assert "limits.maintenance" in refusals_now(moves, a_ledger(), closed, NOW, dry_run=False)[0]


def test_waves_follow_evaluations_and_the_limits_that_hold_in_a_campaign() -> None:
    """One per evaluation, one move a second; the window of the cluster does not count, that of a workload does."""
    waves = [[a_move(1), a_move(2)], [a_move(3)], [a_move(4, workload=a_workload("app-1"))]]
    ends = wave_ends(waves, a_ledger(), ONE_IN_TEN_MINUTES, NOW, interval=120.0)
    assert ends == pytest.approx([NOW + 1, NOW + 120, NOW + 305], abs=1)


def test_a_wave_ends_when_its_replacements_are_ready() -> None:
    """As fast as the pods were, as far as that is known; the next wave waits for no replacement."""
    waves = [[a_move(1, cost=MoveCost(start=300.0)), a_move(2, cost=MoveCost())], [a_move(3)]]
    ends = wave_ends(waves, a_ledger(), Limits(), NOW, interval=120.0)
    assert ends == pytest.approx([NOW + 300, NOW + 120], abs=1)


def test_waves_after_a_move_that_time_does_not_permit_have_no_end() -> None:
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=0))
    assert wave_ends([[a_move(1)], [a_move(2)]], a_ledger(), limits, NOW, interval=120.0) == []


def test_waves_wait_for_maintenance_times() -> None:
    closed = Limits(maintenance=msgspec.convert({"only": [{"from": "20:00", "to": "21:00"}]}, Maintenance))
    (end,) = wave_ends([[a_move(1)]], a_ledger(), closed, NOW, interval=120.0)
    assert end == NOW + 12 * 3_600.0
