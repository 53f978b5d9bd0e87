"""How much of each limit is used, and which entries are pending; tests/cli/test_status has the text."""

import pytest
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import LimitUsage, ledger_status
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.messages.eviction import Outcome


def usage_of(*names: str) -> dict[tuple[str, str], int]:
    """By limit and object."""
    late = an_entry("db-1", workload=a_workload("db"), namespace="bank", node="node-b", settled_at=NOW - 400)
    failing = an_entry("web-1", settled_at=NOW - 60, failing_since=NOW - 5, failure="a quota")
    preempted = an_entry("batch-1", workload=a_workload("batch"), preempted_for=(a_workload(),))
    usage = ledger_status(a_ledger(late, failing, preempted), Limits(), NOW).usage
    return {(each.limit, each.scope): each.counted for each in usage if each.limit in names}


def test_every_counting_limit_reports_its_usage() -> None:
    """Per node, workload or namespace that is counted; of the cluster always."""
    assert usage_of("evictionsPerWorkload", "evictionsPerNamespace", "evictionsPerCluster") == {
        ("evictionsPerWorkload", "Deployment/shop/web"): 1,
        ("evictionsPerWorkload", "Deployment/shop/batch"): 1,
        ("evictionsPerNamespace", "namespace shop"): 2,
        ("evictionsPerNamespace", "namespace bank"): 1,
        ("evictionsPerCluster", "the cluster"): 3,
    }
    assert usage_of("migratingPerNode", "lateReplacements", "failingReplacements", "preemptions") == {
        ("migratingPerNode", "node node-a"): 2,
        ("migratingPerNode", "node node-b"): 1,
        ("lateReplacements", "the cluster"): 1,
        ("failingReplacements", "namespace shop"): 1,
        ("preemptions", "Deployment/shop/web"): 1,
    }
    empty = ledger_status(a_ledger(), Limits(), NOW).usage
    assert {each.scope for each in empty} == {"the cluster"}


def test_usage_has_the_configured_maximum_and_window() -> None:
    (usage,) = (each for each in ledger_status(a_ledger(), Limits(), NOW).usage if each.limit == "unusualRate")
    expected = LimitUsage(
        limit="unusualRate", scope="the cluster", counted=0, max="3 times the usual", allowed=3, window="10m"
    )
    assert usage == expected


def test_pending_entries_are_those_reserved_or_without_their_replacement() -> None:
    reserved = an_entry("web-1", settled_at=None, outcome=None)
    moved, recovered = an_entry("web-2"), an_entry("web-3", recovered_at=NOW)
    status = ledger_status(a_ledger(reserved, moved, recovered), Limits(), NOW)
    assert [entry.pod for entry in status.pending] == ["web-1", "web-2"]
    assert [entry.pod for entry in status.last] == ["web-3"], "each pod is listed once"


def test_a_closed_ledger_has_nothing_but_its_reason() -> None:
    status = ledger_status(LedgerClosed(why="it is missing"), Limits(), NOW)
    assert (status.evictions, status.why, status.usage) == ("closed", "it is missing", [])


def test_usage_is_that_of_dry_runs_while_there_are_no_evictions() -> None:
    """The status states that dry runs take nothing from the limits of evictions."""
    dry = an_entry("web-1", dry_run=True, outcome=Outcome.DRY_RUN)

    def used(*entries: LedgerEntry) -> tuple[bool, int]:
        status = ledger_status(a_ledger(*entries), Limits(), NOW)
        (cluster,) = (each for each in status.usage if each.limit == "evictionsPerCluster")
        return status.usage_of_dry_runs, cluster.counted

    assert used(dry) == (True, 1)
    assert used(dry, an_entry("web-2")) == (False, 1)
    assert used() == (False, 0)


@pytest.mark.parametrize(("replicas", "allowed"), [(20, 2), (50, 5), (None, None)])
def test_a_limit_of_a_workload_is_a_number_as_soon_as_its_replicas_are_known(
    replicas: int | None, allowed: int | None
) -> None:
    """`default` was shown where people want to know how many. The ledger has the replicas of each eviction."""
    entry = an_entry("web-1", replicas=replicas, recovered_at=None)
    status = ledger_status(a_ledger(entry, started_at=NOW - 10 * 86_400), Limits(), NOW)
    (workload,) = (each for each in status.usage if each.limit == "migratingPerWorkload")
    assert (workload.counted, workload.allowed) == (1, allowed)
