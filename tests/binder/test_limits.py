"""Each limit by example; the laws that all of them keep are in test_laws."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from binder.ledgers import a_move, an_entry
from builders import NOW, a_workload
from kube_objects import a_deployment, a_pod

from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    FailingReplacements,
    LateReplacements,
    Limits,
    Maintenance,
    MigratingPerNode,
    MigratingPerWorkload,
    Preemptions,
    ProposedEviction,
    UnavailablePerWorkload,
    UnusualRate,
)
from equipoise.binder.decisions.limits.maintenance import WeeklyTimes
from equipoise.binder.decisions.limits.rule import amount, replicas_amount
from equipoise.binder.state.ledger import CLOCK_TOLERANCE, LedgerEntry, LedgerView
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Namespaces, Protection
from equipoise.contracts.eviction.protection import EVICTION_COST, Candidate, Rules, protection
from equipoise.contracts.kubernetes import objects

CASES = json.loads((Path(__file__).parents[1] / "data" / "migration_limit_cases.json").read_text())


def a_view(*entries: LedgerEntry, now: float = NOW, halved: bool = False) -> LedgerView:
    return LedgerView(now=now, entries=entries, migration_timeout=600.0, halved=halved)


@pytest.mark.parametrize("case", CASES["most"], ids=lambda case: case["id"])
def test_most_unavailable_as_elsewhere(case: dict[str, object]) -> None:
    """Shares are rounded as in Koordinator, except that 0% means nothing, not one."""
    configured, replicas, expected = case["configured"], case["replicas"], case["max_unavailable"]
    assert isinstance(replicas, int)
    if configured == "0%":
        expected = 0
    assert configured is None or isinstance(configured, int | str)
    assert replicas_amount(configured, replicas) == expected


@pytest.mark.parametrize("case", CASES["filter"], ids=lambda case: case["id"])
def test_unavailable_filter_as_elsewhere(case: dict[str, int]) -> None:
    """Missing replicas and those in migration count together, those of other workloads do not."""
    mine = [an_entry(f"mine-{number}") for number in range(case["migrating_of_workload"])]
    others = [
        an_entry(f"other-{number}", workload=a_workload("db")) for number in range(case["migrating_of_other_workload"])
    ]
    limit = UnavailablePerWorkload(max=case["max_unavailable"])
    move = a_move(replicas=case["replicas"], unready=case["unavailable_not_migrating"])
    assert (limit.refusal(move, a_view(*mine, *others)) == "") == case["allowed"]


@pytest.mark.parametrize(
    ("setting", "replicas", "expected"),
    [
        (None, 1, 1),
        (None, 2, 1),
        (None, 3, 1),
        (None, 4, 2),
        (None, 10, 2),
        (None, 11, 1),
        (None, 20, 2),
        (None, 105, 10),
        ("10%", 4, 1),
        ("29%", 100, 29),
        ("100%", 3, 2),
        (5, 3, 2),
        (0, 50, 0),
        ("0%", 50, 0),
        ("0.5%", 1000, 5),
        ("unlimited", 3, math.inf),
    ],
)
def test_share_of_a_workload(setting: int | str | None, replicas: int, expected: float) -> None:
    """A tenth, rounded down; two of four to ten; never the last replica; 0 is nothing."""
    assert replicas_amount(setting, replicas) == expected


@pytest.mark.parametrize("case", CASES["expected_replicas"], ids=lambda case: case["id"])
def test_expected_replicas_as_elsewhere(case: dict[str, int]) -> None:
    """A workload may move when its limits are below its replicas; ours never are all of them, so nothing is skipped."""
    limits = Limits(
        migrating_per_workload=MigratingPerWorkload(max=case["max_migrating"]),
        unavailable_per_workload=UnavailablePerWorkload(max=case["max_unavailable"]),
    )
    move = a_move(replicas=case["replicas"])
    assert (limits.refusal(move, a_view()) is None) == case["allowed"]
    assert replicas_amount(case["max_unavailable"], case["max_unavailable"]) == case["max_unavailable"] - 1


@pytest.mark.parametrize("case", CASES["eviction_cost"], ids=lambda case: case["id"])
def test_eviction_cost_as_elsewhere(case: dict[str, int]) -> None:
    """An ordinary cost protects nobody, the highest one does; none overrides a protection."""
    annotated = {"annotations": {EVICTION_COST: str(case["eviction_cost"])}}
    dearest = {"annotations": {EVICTION_COST: "2147483647"}}

    def stays(metadata: dict[str, object]) -> str:
        pod = a_pod(metadata=metadata)
        candidate = Candidate(pod=pod, namespace=objects.Namespace(), workload=a_workload(), owners=(a_deployment(),))
        rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
        return protection(candidate, rules, NOW)

    assert (stays(annotated) == "") == case["allowed"]
    assert EVICTION_COST in stays(dearest)


def test_no_case_is_left_out() -> None:
    """As many as there are of each feature."""
    ran = [len(CASES[key]) for key in ("most", "filter", "expected_replicas", "eviction_cost")]
    assert ran == list(CASES["features"].values())
    assert sum(ran) == 10


def test_share_of_a_cluster() -> None:
    """1 % of the pods, at least one, at most twenty."""
    assert amount("1%", 50) == 1
    limit = EvictionsPerCluster()
    entries = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}")) for number in range(20)]
    assert limit.refusal(a_move(cluster_pods=10_000), a_view(*entries[:19])) == ""
    assert "20 of 20" in limit.refusal(a_move(cluster_pods=10_000), a_view(*entries))
    assert limit.refusal(a_move(cluster_pods=0), a_view()) == ""
    assert "1 of 1" in limit.refusal(a_move(cluster_pods=0), a_view(entries[0]))


def test_per_node() -> None:
    """Two in migration from one node are enough; another node, and a replica that is back, do not count."""
    limit = MigratingPerNode()
    first, second = an_entry("one"), an_entry("two")
    assert "node-a" in limit.refusal(a_move(), a_view(first, second))
    assert limit.refusal(a_move(node="node-b"), a_view(first, second)) == ""
    back = msgspec.structs.replace(second, recovered_at=NOW)
    assert limit.refusal(a_move(), a_view(first, back)) == ""
    assert limit.refusal(a_move(), a_view(first, second, now=NOW + 600.1)) == ""


def test_per_workload_in_migration() -> None:
    """One of ten in migration leaves room for one more, two do not."""
    limit = MigratingPerWorkload()
    assert limit.refusal(a_move(replicas=10), a_view(an_entry("one"))) == ""
    assert limit.refusal(a_move(replicas=10), a_view(an_entry("one"), an_entry("two")))
    assert limit.refusal(a_move(workload=a_workload("db")), a_view(an_entry("one"), an_entry("two"))) == ""


def test_windows() -> None:
    """An eviction counts for its whole window from its settling, not from its reservation."""
    entry = an_entry("one", reserved_at=NOW - 100, settled_at=NOW)
    limit = EvictionsPerWorkload()
    assert limit.refusal(a_move(), a_view(entry, now=NOW + 299))
    assert limit.refusal(a_move(), a_view(entry, now=NOW + 300.1)) == ""
    assert limit.refusal(a_move(workload=a_workload("db")), a_view(entry)) == ""
    assert EvictionsPerNamespace(max=1).refusal(a_move(workload=a_workload("db")), a_view(entry))
    assert EvictionsPerNamespace(max=1).refusal(a_move(namespace="bank"), a_view(entry)) == ""


def test_an_unsettled_entry_counts_until_nothing_can_be_posted_for_it_any_more() -> None:
    """A reservation whose binder died is counted as if it was carried out at the end of its intent's life."""
    entry = an_entry("one", settled_at=None, outcome=None, expires_at=NOW + 180)
    limit = EvictionsPerWorkload()
    assert limit.refusal(a_move(), a_view(entry, now=NOW + 180.9 + 300))
    assert limit.refusal(a_move(), a_view(entry, now=NOW + 181 + 300.1)) == ""


def test_late_replacements_stop_everything() -> None:
    """Three workloads without their replica for five minutes stop evictions everywhere; a dry run misses none."""
    late = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}"), settled_at=NOW - 301) for number in range(3)]
    move = a_move(namespace="bank", node="node-z", workload=a_workload("ledger"))
    assert LateReplacements().refusal(move, a_view(*late))
    assert LateReplacements().refusal(move, a_view(*late[:2])) == ""
    dry = [msgspec.structs.replace(entry, dry_run=True) for entry in late]
    assert LateReplacements().refusal(move, a_view(*dry)) == ""


def test_one_replacement_that_cannot_be_created_stops_everything() -> None:
    """Wherever it is, and for as long as it is so; a replica that came after all stops nothing."""
    limit = FailingReplacements()
    failing = an_entry("one", failing_since=NOW - 5, failure="its controller cannot create pods (FailedCreate)")
    elsewhere = a_move(namespace="bank", node="node-z", workload=a_workload("ledger"))
    assert "FailedCreate" in limit.refusal(elsewhere, a_view(failing))
    assert limit.refusal(elsewhere, a_view(failing, now=NOW + 86_400))
    assert limit.refusal(elsewhere, a_view(an_entry("one"))) == ""
    assert limit.refusal(elsewhere, a_view(msgspec.structs.replace(failing, recovered_at=NOW))) == ""


def test_a_preemption_stops_the_workload_that_caused_it() -> None:
    """For an hour; the workload of the preempted pod has lost one, as if we had evicted it."""
    victim = an_entry("batch-1", workload=a_workload("batch"), preempted_for=(a_workload("web"),))
    assert Preemptions().refusal(a_move(), a_view(victim))
    assert Preemptions().refusal(a_move(), a_view(victim, now=NOW + 3_599))
    assert Preemptions().refusal(a_move(), a_view(victim, now=NOW + 3_601)) == ""
    assert Preemptions().refusal(a_move(workload=a_workload("db")), a_view(victim)) == ""
    assert EvictionsPerWorkload().refusal(a_move(workload=a_workload("batch")), a_view(victim))


def test_three_times_the_usual_is_unusual() -> None:
    """Three in ten minutes while nothing is usual; three times the mean of a day otherwise."""
    entries = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}")) for number in range(9)]
    assert UnusualRate().refusal(a_move(), a_view(*entries[:2])) == ""
    assert "1 are usual" in UnusualRate().refusal(a_move(), a_view(*entries[:3]))
    assert UnusualRate().refusal(a_move(), a_view(*entries[:3], now=NOW + 600.1)) == ""

    def on_busy_days(*entries: LedgerEntry) -> LedgerView:
        return msgspec.structs.replace(a_view(*entries), mean_rate=3 / 600)

    assert UnusualRate().refusal(a_move(), on_busy_days(*entries[:8])) == ""
    assert "9 of 9" in UnusualRate().refusal(a_move(), on_busy_days(*entries))


TUESDAY = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp()
NIGHTS = WeeklyTimes(begin="22:00", end="06:00", time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("maintenance", "hours", "allowed"),
    [
        (Maintenance(), 0, True),
        (Maintenance(only=(NIGHTS,)), 0, True),  # 23:13 in Berlin
        (Maintenance(only=(NIGHTS,)), 6.7, True),  # 05:55
        (Maintenance(only=(NIGHTS,)), 6.8, False),  # 06:01
        (Maintenance(never=(NIGHTS,)), 0, False),
        (Maintenance(only=(NIGHTS,), never=(NIGHTS,)), 0, False),
        (Maintenance(only=(WeeklyTimes(days=("Mon",), begin="22:00", end="23:30"),)), 0, False),
        (Maintenance(only=(WeeklyTimes(days=("Tue",), begin="22:00", end="23:30"),)), 0, True),
        (Maintenance(only=(WeeklyTimes(days=("Tue",), begin="20:00", end="06:00"),)), 5, True),  # Wednesday 03:13
        (Maintenance(only=(WeeklyTimes(days=("Wed",), begin="20:00", end="06:00"),)), 5, False),
        (Maintenance(only=(WeeklyTimes(days=("Tue",)),)), 0, True),  # a whole day
        (Maintenance(only=(WeeklyTimes(days=("Tue",)),)), 1.8, False),
    ],
)
def test_maintenance(maintenance: Maintenance, hours: float, allowed: bool) -> None:
    """Only inside, never inside, by the clock of a place; a night belongs to the day on which it begins."""
    view = a_view(now=TUESDAY + hours * 3_600)
    assert (maintenance.refusal(a_move(), view) == "") == allowed


def test_maintenance_follows_the_clocks_of_its_place() -> None:
    """22:00 in Berlin is 21:00 UTC in winter and 20:00 UTC in summer, 29 and 30 hours of the change included."""
    summer = datetime(2024, 7, 1, 20, 30, tzinfo=UTC).timestamp()
    assert NIGHTS.contain(summer)
    assert not NIGHTS.contain(summer - 3_600)
    changing = WeeklyTimes(days=("Sat",), begin="22:00", end="06:00", time_zone="Europe/Berlin")
    first, last = (datetime(2024, 3, 30, 21, tzinfo=UTC), datetime(2024, 3, 31, 4, tzinfo=UTC))
    assert (first.timestamp(), last.timestamp()) in list(changing.occurrences(first.timestamp()))


def test_maintenance_tells_when_it_opens() -> None:
    """The refusal's room is the next moment at which evictions may happen."""
    limits = Limits(maintenance=Maintenance(only=(WeeklyTimes(days=("Sun",), begin="03:00", end="05:00"),)))
    refusal = limits.refusal(a_move(), a_view(now=TUESDAY))
    assert refusal is not None
    assert (refusal.limit, refusal.retry_at) == ("maintenance", datetime(2023, 11, 19, 3, tzinfo=UTC).timestamp())
    never = Maintenance(never=(WeeklyTimes(),))
    assert never.refusal(a_move(), a_view())
    assert never.opens_at(TUESDAY) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"only": [{"timeZone": "Europe/Atlantis"}]}',
        '{"only": [{"timeZone": "../etc/passwd"}]}',
        '{"only": [{"days": ["Monday"]}]}',
        '{"only": [{"days": []}]}',
        '{"only": [{"from": "24:00"}]}',
        '{"only": [{"begin": "22:00"}]}',
    ],
)
def test_maintenance_of_nonsense_is_refused(text: str) -> None:
    """At the reading of the configuration, not at night."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Maintenance)


def test_maintenance_is_written_with_from_and_to() -> None:
    """As people say it."""
    text = '{"never": [{"days": ["Fri"], "from": "16:00", "to": "20:00", "timeZone": "America/New_York"}]}'
    (times,) = msgspec.json.decode(text, type=Maintenance).never
    assert str(times) == "Fri 16:00-20:00 America/New_York"


def test_pace_says_how_long_to_wait() -> None:
    """The next turn comes when the oldest of the last `most` evictions leaves the window."""
    pace = EvictionRate(max=2, window=Duration(10))
    entries = [an_entry(str(ago), reserved_at=NOW - ago, settled_at=NOW) for ago in (8, 5, 1)]
    assert pace.wait(a_view(entries[0])) == 0
    assert pace.wait(a_view(*entries)) == 5
    assert EvictionRate(max=0).wait(a_view()) == math.inf
    assert EvictionRate(max="unlimited").wait(a_view(*entries)) == 0


def test_start_up_grace_halves() -> None:
    """After a start half of each limit, rounded up, is in force, and the refusal says so."""
    move, limit = a_move(), MigratingPerNode(max=3)
    entries = [an_entry("one"), an_entry("two")]
    assert limit.refusal(move, a_view(*entries)) == ""
    assert "half" in limit.refusal(move, a_view(*entries, halved=True))
    assert limit.refusal(move, a_view(entries[0], halved=True)) == ""


def test_refusals_name_the_setting() -> None:
    """A person can find the limit that refused in the configuration."""
    refusal = Limits().refusal(a_move(), a_view(an_entry("one")))
    assert refusal is not None
    assert refusal.limit == "evictionsPerWorkload"
    assert refusal.detail.endswith("(limits.evictionsPerWorkload)")
    assert "Deployment/shop/web" in refusal.detail


def test_refusals_tell_when_there_is_room_again() -> None:
    """When the oldest eviction that counts leaves the window; what time alone does not end has no such moment."""
    old, new = an_entry("old", settled_at=NOW - 100), an_entry("new", settled_at=NOW - 10)
    other = a_move(workload=a_workload("db"), node="node-z")
    limits = Limits(evictions_per_namespace=EvictionsPerNamespace(max=1))

    def retry_at(move: ProposedEviction, *entries: LedgerEntry) -> float | None:
        refusal = limits.refusal(move, a_view(*entries))
        assert refusal is not None
        return refusal.retry_at

    assert retry_at(a_move(), old) == pytest.approx(NOW - 100 + 300 + CLOCK_TOLERANCE, abs=0.01)
    assert retry_at(other, new, old) == pytest.approx(NOW - 10 + 600 + CLOCK_TOLERANCE, abs=0.01)
    assert Limits(evictions_per_namespace=EvictionsPerNamespace(max=2)).refusal(other, a_view(old)) is None
    crowd = [an_entry(f"w{each}", workload=a_workload(f"w{each}"), namespace="bank") for each in range(2)]
    assert retry_at(a_move(namespace="fair", workload=a_workload("fair")), *crowd) is None


def test_every_limit_is_in_force() -> None:
    """No limit of the configuration is left out of the table, which has its names."""
    named = {field.encode_name for field in msgspec.structs.fields(Limits) if hasattr(field.default, "refusal")}
    assert named == set(Limits().table)


@pytest.mark.parametrize("text", ['"many"', "-1", '"110%"', "1.5", '"5"'])
def test_nonsense_is_refused(text: str) -> None:
    """What is no count is an error, never unlimited."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(f'{{"migratingPerWorkload":{{"most":{text}}}}}', type=Limits)
