"""Each limit by example; test_laws has the laws that all of them obey."""

import math

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry, an_eviction
from builders import NOW, a_workload

from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    FailingReplacements,
    LateReplacements,
    Limits,
    MigratingPerNode,
    MigratingPerWorkload,
    Preemptions,
    ProposedEviction,
    UnusualRate,
)
from equipoise.binder.decisions.limits.rule import Count, WindowedLimit, amount, replicas_amount
from equipoise.binder.decisions.status import ledger_status
from equipoise.binder.state.ledger import LedgerView, clock_tolerance
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.configuration.duration import Duration


def a_view(*entries: LedgerEntry, now: float = NOW, halved: bool = False) -> LedgerView:
    return LedgerView(now=now, entries=entries, migration_timeout=600.0, halved=halved)


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
def test_replicas_amount(setting: int | str | None, replicas: int, expected: float) -> None:
    """A tenth, rounded down; two of four to ten; never the last replica; 0 is none."""
    assert replicas_amount(setting, replicas) == expected


def test_evictions_per_cluster_are_a_share_of_its_pods() -> None:
    """1 % of the pods, at least one, at most twenty."""
    assert amount("1%", 50) == 1
    limit = EvictionsPerCluster()
    entries = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}")) for number in range(20)]
    assert limit.refusal(an_eviction(cluster_pods=10_000), a_view(*entries[:19])) == ""
    assert "20 of 20" in limit.refusal(an_eviction(cluster_pods=10_000), a_view(*entries))
    assert limit.refusal(an_eviction(cluster_pods=0), a_view()) == ""
    assert "1 of 1" in limit.refusal(an_eviction(cluster_pods=0), a_view(entries[0]))


def test_migrating_per_node() -> None:
    """Two are enough; another node, and a recovered replica, do not count."""
    limit = MigratingPerNode()
    first, second = an_entry("one"), an_entry("two")
    assert "node-a" in limit.refusal(an_eviction(), a_view(first, second))
    assert limit.refusal(an_eviction(node="node-b"), a_view(first, second)) == ""
    back = msgspec.structs.replace(second, recovered_at=NOW)
    assert limit.refusal(an_eviction(), a_view(first, back)) == ""
    assert limit.refusal(an_eviction(), a_view(first, second, now=NOW + 604.1)) == ""


def test_migrating_per_workload() -> None:
    """One of ten leaves room for one more, two do not."""
    limit = MigratingPerWorkload()
    assert limit.refusal(an_eviction(replicas=10), a_view(an_entry("one"))) == ""
    assert limit.refusal(an_eviction(replicas=10), a_view(an_entry("one"), an_entry("two")))
    assert limit.refusal(an_eviction(workload=a_workload("db")), a_view(an_entry("one"), an_entry("two"))) == ""


def test_an_eviction_counts_for_its_window_from_its_settling() -> None:
    """Not from its reservation."""
    entry = an_entry("one", reserved_at=NOW - 100, settled_at=NOW)
    limit = EvictionsPerWorkload()
    assert limit.refusal(an_eviction(), a_view(entry, now=NOW + 299))
    assert limit.refusal(an_eviction(), a_view(entry, now=NOW + 304.1)) == ""
    assert limit.refusal(an_eviction(workload=a_workload("db")), a_view(entry)) == ""
    assert EvictionsPerNamespace(max=1).refusal(an_eviction(workload=a_workload("db")), a_view(entry))
    assert EvictionsPerNamespace(max=1).refusal(an_eviction(namespace="bank"), a_view(entry)) == ""


def test_an_unsettled_entry_counts_from_the_end_of_its_lifetime() -> None:
    """Its binder crashed, so its POST may have come as late as that."""
    entry = an_entry("one", settled_at=None, outcome=None, expires_at=NOW + 180)
    limit = EvictionsPerWorkload()
    assert limit.refusal(an_eviction(), a_view(entry, now=NOW + 180.9 + 300))
    assert limit.refusal(an_eviction(), a_view(entry, now=NOW + 181 + 304.1)) == ""


def test_late_replacements_stop_all_evictions() -> None:
    """Three workloads that miss a replica for five minutes; a dry run misses none."""
    late = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}"), settled_at=NOW - 301) for number in range(3)]
    eviction = an_eviction(namespace="bank", node="node-z", workload=a_workload("ledger"))
    assert LateReplacements().refusal(eviction, a_view(*late))
    assert LateReplacements().refusal(eviction, a_view(*late[:2])) == ""
    dry = [msgspec.structs.replace(entry, dry_run=True) for entry in late]
    assert LateReplacements().refusal(eviction, a_view(*dry)) == ""


def test_one_failing_replacement_stops_all_evictions_in_its_namespace() -> None:
    """For as long as it fails; a recovered one stops nothing."""
    limit = FailingReplacements()
    failing = an_entry("one", failing_since=NOW - 5, failure="its controller cannot create pods (FailedCreate)")
    neighbour = an_eviction(node="node-z", workload=a_workload("ledger"))
    assert "FailedCreate" in limit.refusal(neighbour, a_view(failing))
    assert limit.refusal(neighbour, a_view(failing, now=NOW + 86_400))
    assert limit.refusal(neighbour, a_view(an_entry("one"))) == ""
    assert limit.refusal(neighbour, a_view(msgspec.structs.replace(failing, recovered_at=NOW))) == ""


@pytest.mark.parametrize(("allowed", "elsewhere"), [(1, True), (2, True), (3, False)])
def test_failing_replacements_of_two_namespaces_stop_all_evictions(allowed: int, elsewhere: bool) -> None:
    """The owner of one workload can make its replacements fail, and must not stop those of all others."""
    limit = FailingReplacements(max=allowed)
    here = [an_entry(name, failing_since=NOW - 5, failure="its own quota") for name in ("one", "two")][:allowed]
    there = an_entry("three", namespace="mail", failing_since=NOW - 5, failure="a webhook")
    eviction = an_eviction(namespace="bank", node="node-z", workload=a_workload("ledger"))

    assert limit.refusal(eviction, a_view(*here)) == ""
    assert bool(limit.refusal(eviction, a_view(here[0], there))) is elsewhere


def test_a_preemption_stops_the_workload_that_caused_it() -> None:
    """For an hour; for the preempted pod's workload it counts as an eviction."""
    victim = an_entry("batch-1", workload=a_workload("batch"), preempted_for=(a_workload("web"),))
    assert Preemptions().refusal(an_eviction(), a_view(victim))
    assert Preemptions().refusal(an_eviction(), a_view(victim, now=NOW + 3_599))
    assert Preemptions().refusal(an_eviction(), a_view(victim, now=NOW + 3_604.1)) == ""
    assert Preemptions().refusal(an_eviction(workload=a_workload("db")), a_view(victim)) == ""
    assert EvictionsPerWorkload().refusal(an_eviction(workload=a_workload("batch")), a_view(victim))


def test_three_times_the_usual_rate_is_refused() -> None:
    """Three in ten minutes without a history; else three times the mean of a day."""
    entries = [an_entry(f"pod-{number}", workload=a_workload(f"w{number}")) for number in range(9)]
    assert UnusualRate().refusal(an_eviction(), a_view(*entries[:2])) == ""
    assert "1 are usual" in UnusualRate().refusal(an_eviction(), a_view(*entries[:3]))
    assert UnusualRate().refusal(an_eviction(), a_view(*entries[:3], now=NOW + 604.1)) == ""

    def on_busy_days(*entries: LedgerEntry) -> LedgerView:
        return msgspec.structs.replace(a_view(*entries), mean_rate=3 / 600)

    assert UnusualRate().refusal(an_eviction(), on_busy_days(*entries[:8])) == ""
    assert "9 of 9" in UnusualRate().refusal(an_eviction(), on_busy_days(*entries))


def test_the_rate_returns_the_wait() -> None:
    """Until the oldest of the last `max` reservations leaves the window."""
    pace = EvictionRate(max=2, window=Duration(10))
    entries = [an_entry(str(ago), reserved_at=NOW - ago, settled_at=NOW) for ago in (8, 5, 1)]
    assert pace.wait(a_view(entries[0])) == 0
    assert pace.wait(a_view(*entries)) == 5
    assert EvictionRate(max=0).wait(a_view()) == math.inf
    assert EvictionRate(max="unlimited").wait(a_view(*entries)) == 0


def test_the_grace_period_halves_limits() -> None:
    """Rounded up, and the refusal states it."""
    eviction, limit = an_eviction(), MigratingPerNode(max=3)
    entries = [an_entry("one"), an_entry("two")]
    assert limit.refusal(eviction, a_view(*entries)) == ""
    assert "half" in limit.refusal(eviction, a_view(*entries, halved=True))
    assert limit.refusal(eviction, a_view(entries[0], halved=True)) == ""


def test_a_refusal_names_the_setting() -> None:
    refusal = Limits().refusal(an_eviction(), a_view(an_entry("one")))
    assert refusal is not None
    assert refusal.limit == "evictionsPerWorkload"
    assert refusal.detail.endswith("(limits.evictionsPerWorkload)")
    assert "Deployment/shop/web" in refusal.detail


def test_a_refusal_has_the_time_at_which_the_limit_agrees() -> None:
    """When the oldest counted eviction leaves the window; None when time alone does not help."""
    old, new = an_entry("old", settled_at=NOW - 100), an_entry("new", settled_at=NOW - 10)
    other = an_eviction(workload=a_workload("db"), node="node-z")
    limits = Limits(evictions_per_namespace=EvictionsPerNamespace(max=1))

    def retry_at(eviction: ProposedEviction, *entries: LedgerEntry) -> float | None:
        refusal = limits.refusal(eviction, a_view(*entries))
        assert refusal is not None
        return refusal.retry_at

    assert retry_at(an_eviction(), old) == pytest.approx(NOW - 100 + 300 + clock_tolerance(300), abs=0.01)
    assert retry_at(other, new, old) == pytest.approx(NOW - 10 + 600 + clock_tolerance(600), abs=0.01)
    assert Limits(evictions_per_namespace=EvictionsPerNamespace(max=2)).refusal(other, a_view(old)) is None
    crowd = [an_entry(f"w{each}", workload=a_workload(f"w{each}"), namespace="bank") for each in range(2)]
    assert retry_at(an_eviction(namespace="fair", workload=a_workload("fair")), *crowd) is None


class EvictionsPerNode(WindowedLimit, frozen=True, kw_only=True):
    """The example of docs/extending.md."""

    per = "node"
    counts = "evictions from node {eviction.node} in {limit.window}"

    max: Count = 1
    window: Duration = Duration(7_200)


class LimitsWithOneMore(Limits, frozen=True, kw_only=True):
    evictions_per_node: EvictionsPerNode = EvictionsPerNode()


def test_a_new_limit_needs_its_class_and_one_field() -> None:
    """Then it refuses, has a place in the configuration, in the ledger's memory and in `equipoise status`."""
    limits = LimitsWithOneMore()
    eviction = an_eviction(workload=a_workload("db"), namespace="bank")
    refusal = limits.refusal(eviction, a_view(an_entry("one")))
    assert refusal is not None
    assert refusal.detail == "evictions from node node-a in 2h: 1 of 1 allowed (limits.evictionsPerNode)"
    assert limits.retention == 7_200
    assert msgspec.to_builtins(limits, enc_hook=str)["evictionsPerNode"] == {"max": 1, "window": "2h"}
    usage = ledger_status(a_ledger(an_entry("one")), limits, NOW).usage
    assert ("evictionsPerNode", "node node-a", 1) in {(each.limit, each.scope, each.counted) for each in usage}


def test_every_limit_of_the_configuration_is_in_the_table() -> None:
    named = {field.encode_name for field in msgspec.structs.fields(Limits) if hasattr(field.default, "refusal")}
    assert named == set(Limits().table)


@pytest.mark.parametrize("text", ['"many"', "-1", '"110%"', "1.5", '"5"'])
def test_an_invalid_count_is_an_error(text: str) -> None:
    """Never unlimited."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(f'{{"migratingPerWorkload":{{"most":{text}}}}}', type=Limits)
