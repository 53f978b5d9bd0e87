"""The ledger as a document: reservations, outcomes, pruning, what is usual."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload, an_intent

from equipoise.binder.state.ledger import DAY, MAX_PAST, MAX_REFUSALS, Ledger, ReplacementStatus
from equipoise.binder.state.ledger_entry import MAX_REASON, LedgerEntry, new_entry
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.example import LEASE_EPOCH


def test_a_reservation_counts_at_once() -> None:
    """Before the eviction, and for the workload that was read live."""
    live = a_workload("renamed")
    reserved = new_entry(an_intent(), NOW, workload=live, expires_at=NOW + 180, dry_run=False)
    ledger = a_ledger().reserve(reserved, epoch=an_intent().epoch)
    (entry,) = ledger.view(NOW, dry_run=False, migration_timeout=600).entries
    assert entry.workload == live
    assert entry.outcome is None
    assert ledger.epoch == an_intent().epoch


def test_a_dry_run_takes_nothing_from_evictions_and_is_limited_by_both() -> None:
    """The dry run is limited as a real eviction would be if the earlier dry runs had been real ones."""
    real, dry = an_entry("web-1"), an_entry("web-2", dry_run=True, outcome=Outcome.DRY_RUN)
    ledger = a_ledger(real, dry)

    assert ledger.view(NOW, dry_run=False, migration_timeout=600).entries == (real,)
    assert ledger.view(NOW, dry_run=True, migration_timeout=600).entries == (real, dry)


def test_an_intent_is_reserved_once() -> None:
    reserved = new_entry(an_intent(), NOW, workload=None, expires_at=NOW, dry_run=False)
    ledger = a_ledger().reserve(reserved, epoch=an_intent().epoch)
    with pytest.raises(ValueError, match="ledger already"):
        ledger.reserve(reserved, epoch=an_intent().epoch)


def test_the_first_outcome_is_kept() -> None:
    """A later settle changes nothing, nor does a late release."""
    ledger = a_ledger(an_entry(settled_at=None, outcome=None))
    settled = ledger.settle("intent-web-1", Outcome.EVICTED, NOW)
    assert settled.settle("intent-web-1", Outcome.ALREADY_GONE, NOW + 1, counted=False) == settled
    assert settled.release("intent-web-1") == settled


def test_a_returned_reservation_does_not_count() -> None:
    """Its outcome is kept; a released one leaves no entry."""
    ledger = a_ledger(an_entry(settled_at=None, outcome=None))
    refused = ledger.settle("intent-web-1", Outcome.BLOCKED_PDB, NOW, counted=False)
    assert refused.view(NOW, dry_run=False, migration_timeout=600).entries == ()
    entry = refused.entry("intent-web-1")
    assert entry is not None
    assert entry.outcome == Outcome.BLOCKED_PDB
    assert ledger.release("intent-web-1").entries == ()


def test_refusals_do_not_count() -> None:
    """They are only kept for redeliveries, and only the latest ones."""
    refusals = [an_entry(f"pod-{number}", counted=False, outcome=Outcome.REJECTED_FIT) for number in range(250)]
    ledger = a_ledger(an_entry(), *refusals)
    assert ledger.view(NOW, dry_run=False, migration_timeout=600).entries == (an_entry(),)
    assert ledger.without_refusals().entries == (an_entry(),)
    assert ledger.pruned(NOW).entries == (an_entry(), *refusals[-MAX_REFUSALS:])


def test_pruning_keeps_what_redeliveries_and_windows_need() -> None:
    refusal = an_entry("a", counted=False, expires_at=NOW + 10)
    done = an_entry("b", expires_at=NOW + 10)
    ledger = a_ledger(refusal, done).retaining(600, NOW)
    assert ledger.pruned(NOW + 10) == ledger
    assert ledger.pruned(NOW + 11).entries == (done,)
    assert ledger.pruned(NOW + 600).entries == (done,)
    assert ledger.pruned(NOW + 605).entries == ()


def test_the_longest_retention_is_kept_until_no_binder_needs_it() -> None:
    """While a longer window is rolled out, binders with the old one must not drop what the new one counts."""
    day, minutes = 86_400.0, 300.0
    ledger = a_ledger(an_entry()).retaining(minutes, NOW).retaining(day, NOW + 1)
    later = ledger.retaining(minutes, NOW + 3_600)
    assert later == ledger
    assert later.pruned(NOW + 3_600).entries == (an_entry(),)
    needed_again = later.retaining(day, NOW + 7_200)
    assert (needed_again.retention, needed_again.retention_needed_at) == (day, NOW + 7_200)
    assert needed_again.retaining(minutes, NOW + 7_200 + day).retention == day
    forgotten = needed_again.retaining(minutes, NOW + 7_201 + day)
    assert forgotten.retention == minutes
    assert forgotten.pruned(NOW + 7_201 + day).entries == ()


def test_the_ledger_survives_json() -> None:
    """Field names are in camel case, as in Kubernetes."""
    ledger = a_ledger(an_entry(), epoch=an_intent().epoch, paused=True)
    text = msgspec.json.encode(ledger)
    assert msgspec.json.decode(text, type=Ledger) == ledger
    assert b'"intentId"' in text


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    document: Any = msgspec.to_builtins(a_ledger(an_entry()))
    document["later"] = 1
    document["entries"][0]["later"] = 1
    assert msgspec.convert(document, Ledger) == a_ledger(an_entry())


def test_evictions_are_counted_by_the_hour() -> None:
    """Each once, dry runs apart; what is older than a day is dropped."""
    ledger = a_ledger()
    for number in range(6):
        name, at = f"pod-{number}", NOW + number * 1_800
        outcome = Outcome.DRY_RUN if number == 0 else Outcome.EVICTED
        ledger = msgspec.structs.replace(ledger, entries=(an_entry(name, settled_at=None, outcome=None),))
        ledger = ledger.settle(f"intent-{name}", outcome, at).settle(f"intent-{name}", outcome, at)
    assert [(hour.evictions, hour.dry_runs) for hour in ledger.hours] == [(1, 1), (2, 0), (2, 0)]
    assert ledger.mean_rate(NOW + 9_000, dry_run=False) == 5 / 86_400
    assert ledger.mean_rate(NOW + 9_000, dry_run=True) == 6 / 86_400
    assert (ledger.last_day(NOW + 9_000).evictions, ledger.last_day(NOW + 9_000).dry_runs) == (5, 1)
    assert ledger.mean_rate(NOW + 86_400 + 3_601, dry_run=False) == 2 / 86_400
    later = msgspec.structs.replace(ledger, entries=(an_entry("last", settled_at=None, outcome=None),))
    later = later.settle("intent-last", Outcome.EVICTED, NOW + 10 * 86_400)
    assert len(later.hours) == 1
    refused = msgspec.structs.replace(ledger, entries=(an_entry("no", settled_at=None, outcome=None),))
    assert refused.settle("intent-no", Outcome.BLOCKED_PDB, NOW, counted=False).hours == ledger.hours


def test_the_grace_period_starts_at_the_later_of_start_and_outage() -> None:
    ledger = a_ledger(started_at=NOW - 5_000)

    def halved(ledger: Ledger) -> bool:
        return ledger.view(NOW, dry_run=False, migration_timeout=600, grace_period=3_600).halved

    assert not halved(ledger)
    assert halved(ledger.after_outage("the bus was away for 90 s", NOW - 3_599))
    assert not halved(ledger.after_outage("the bus was away for 90 s", NOW - 3_600))
    assert halved(msgspec.structs.replace(ledger, started_at=NOW - 10).after_outage("it", NOW - 4_000))


def test_the_status_of_a_replacement_updates_its_entry() -> None:
    """ready ends the migration, failing lasts until another status, unknown changes nothing."""
    ledger = a_ledger(an_entry("a"), an_entry("b"))
    failing = ledger.with_replacements({"intent-a": ReplacementStatus(state="failing", why="a quota")}, NOW + 5)
    assert (failing.entries[0].failing_since, failing.entries[0].failure) == (NOW + 5, "a quota")
    assert failing.entries[1] == ledger.entries[1]
    again = failing.with_replacements({"intent-a": ReplacementStatus(state="failing", why="a webhook")}, NOW + 9)
    assert (again.entries[0].failing_since, again.entries[0].failure) == (NOW + 5, "a webhook")
    assert failing.with_replacements({"intent-a": ReplacementStatus(state="unknown")}, NOW + 9) == failing
    assert failing.with_replacements({"intent-a": ReplacementStatus(state="pending")}, NOW + 9) == ledger
    back = failing.with_replacements({"intent-a": ReplacementStatus(state="ready")}, NOW + 9).entries[0]
    assert (back.recovered_at, back.failing_since) == (NOW + 9, None)


def test_a_failing_replacement_is_never_pruned() -> None:
    """Neither by age nor after the migration timeout."""
    ledger = a_ledger(an_entry("a", failing_since=NOW), an_entry("b"))
    assert [entry.pod for entry in ledger.pruned(NOW + 9_000).entries] == ["a"]
    view = ledger.view(NOW + 9_000, dry_run=False, migration_timeout=600)
    assert [entry.pod for entry in view.pending_replacements()] == ["a"]
    assert ledger.resume(NOW).pruned(NOW + 9_000).entries == ()


def reserved(pod: str, at: float, **fields: Any) -> LedgerEntry:
    defaults: dict[str, Any] = {"reason": "cpu 91% is above 65%", "strategy": "low_node_load", "reserved_at": at}
    return an_entry(pod, settled_at=None, outcome=None, **(defaults | fields))


def carried_out(ledger: Ledger, pod: str, at: float, outcome: Outcome = Outcome.EVICTED, **fields: Any) -> Ledger:
    entry = reserved(pod, at, dry_run=outcome is Outcome.DRY_RUN, **fields)
    return ledger.reserve(entry, epoch=LEASE_EPOCH).settle(entry.intent_id, outcome, at + 1)


def test_the_reason_of_an_eviction_is_kept_for_a_day() -> None:
    """Longer than its entry, which only limits need; a dry run too. What was refused has no reason to keep."""
    ledger = carried_out(a_ledger(), "web-1", NOW)
    ledger = carried_out(ledger, "web-2", NOW, Outcome.DRY_RUN)
    ledger = carried_out(ledger, "web-3", NOW, Outcome.BLOCKED_PDB).retaining(600, NOW)
    later = ledger.pruned(NOW + DAY - 10)
    assert later.entries == ()
    assert [(each.pod, each.reason, each.strategy, each.dry_run) for each in later.past] == [
        ("web-1", "cpu 91% is above 65%", "low_node_load", False),
        ("web-2", "cpu 91% is above 65%", "low_node_load", True),
    ]
    assert [each.pod for each in carried_out(later, "web-4", NOW + DAY + 60).past] == ["web-4"]


def test_the_reasons_that_are_kept_are_bounded() -> None:
    """Their number and their length are limited, because the document has a limit."""
    ledger = a_ledger()
    for number in range(MAX_PAST + 20):
        ledger = carried_out(ledger, f"web-{number}", NOW + number)
    assert [ledger.past[0].pod, ledger.past[-1].pod] == ["web-20", f"web-{MAX_PAST + 19}"]
    entry = new_entry(an_intent(reason="x" * 9_999), NOW, workload=None, expires_at=NOW + 9, dry_run=False)
    assert len(entry.reason) == MAX_REASON
    assert ledger.without_refusals().past == (), "the first thing to leave a document that is too large"


def test_no_limit_reads_the_reasons_that_are_kept() -> None:
    ledger = carried_out(a_ledger(), "web-1", NOW)
    without = msgspec.structs.replace(ledger, past=())
    for dry_run in (False, True):
        views = [each.view(NOW + 5, dry_run=dry_run, migration_timeout=600) for each in (ledger, without)]
        assert views[0] == views[1]
