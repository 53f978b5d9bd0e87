"""The ledger as a document, and the whole of it with the limits as a machine that must never exceed a window."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload, an_intent
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from equipoise.binder.decisions.admission import admit
from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    Limits,
    ProposedEviction,
)
from equipoise.binder.decisions.result import Proceed
from equipoise.binder.state.ledger import CLOCK_TOLERANCE, TRANSIT_TIME, Ledger, ReplacementStatus, new_entry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome

LIFE = 20.0


def test_a_reservation_counts_at_once() -> None:
    """From reserve on, not from the eviction on; for the workload that was found live."""
    live = a_workload("renamed")
    reserved = new_entry(an_intent(), NOW, workload=live, expires_at=NOW + 180, dry_run=False)
    ledger = a_ledger().reserve(reserved, epoch=an_intent().epoch)
    (entry,) = ledger.view(NOW, dry_run=False, migration_timeout=600).entries
    assert entry.workload == live
    assert entry.outcome is None
    assert ledger.epoch == an_intent().epoch
    assert ledger.view(NOW, dry_run=True, migration_timeout=600).entries == ()


def test_an_intent_is_reserved_once() -> None:
    """Reserving the same intent again is an error of ours, and changes nothing."""
    reserved = new_entry(an_intent(), NOW, workload=None, expires_at=NOW, dry_run=False)
    ledger = a_ledger().reserve(reserved, epoch=an_intent().epoch)
    with pytest.raises(ValueError, match="ledger already"):
        ledger.reserve(reserved, epoch=an_intent().epoch)


def test_the_first_outcome_stays() -> None:
    """Whoever settles later changes nothing, nor does a late release."""
    ledger = a_ledger(an_entry(settled_at=None, outcome=None))
    settled = ledger.settle("intent-web-1", Outcome.EVICTED, NOW)
    assert settled.settle("intent-web-1", Outcome.ALREADY_GONE, NOW + 1, counted=False) == settled
    assert settled.release("intent-web-1") == settled


def test_given_back() -> None:
    """A refused POST does not count, but its outcome is remembered; a released one is forgotten."""
    ledger = a_ledger(an_entry(settled_at=None, outcome=None))
    refused = ledger.settle("intent-web-1", Outcome.BLOCKED_PDB, NOW, counted=False)
    assert refused.view(NOW, dry_run=False, migration_timeout=600).entries == ()
    entry = refused.entry("intent-web-1")
    assert entry is not None
    assert entry.outcome == Outcome.BLOCKED_PDB
    assert ledger.release("intent-web-1").entries == ()


def test_answers_do_not_count() -> None:
    """An intent that was refused before any reservation is only remembered."""
    refused = new_entry(an_intent(), NOW, workload=None, expires_at=NOW + 180, dry_run=False)
    answer = msgspec.structs.replace(refused, outcome=Outcome.REJECTED_FIT, detail="no room")
    ledger = a_ledger().record_refusal(answer)
    assert ledger.view(NOW, dry_run=False, migration_timeout=600).entries == ()
    assert ledger.without_refusals().entries == ()
    entry = ledger.entry("intent-web-1")
    assert entry is not None
    assert entry.detail == "no room"


def test_prunes_only_what_nobody_needs() -> None:
    """Answers live as long as their intent can come again, evictions as long as a window looks back."""
    answer = an_entry("a", counted=False, expires_at=NOW + 10)
    done = an_entry("b", expires_at=NOW + 10)
    ledger = a_ledger(answer, done)
    assert ledger.pruned(NOW + 10, memory=600) == ledger
    assert ledger.pruned(NOW + 11, memory=600).entries == (done,)
    assert ledger.pruned(NOW + 600, memory=600).entries == (done,)
    assert ledger.pruned(NOW + 601, memory=600).entries == ()


def test_travels_as_json() -> None:
    """What is written is what is read, with names as people know them from Kubernetes."""
    ledger = a_ledger(an_entry(), epoch=an_intent().epoch, paused=True)
    text = msgspec.json.encode(ledger)
    assert msgspec.json.decode(text, type=Ledger) == ledger
    assert b'"intentId"' in text


def test_survives_a_newer_writer() -> None:
    """Fields of a later version are no reason to close."""
    document: Any = msgspec.to_builtins(a_ledger(an_entry()))
    document["later"] = 1
    document["entries"][0]["later"] = 1
    assert msgspec.convert(document, Ledger) == a_ledger(an_entry())


def test_what_is_usual() -> None:
    """Every eviction is counted once in its hour, dry runs apart; what is older than a day is forgotten."""
    ledger = a_ledger()
    for number in range(6):
        name, at = f"pod-{number}", NOW + number * 1_800
        outcome = Outcome.DRY_RUN if number == 0 else Outcome.EVICTED
        ledger = msgspec.structs.replace(ledger, entries=(an_entry(name, settled_at=None, outcome=None),))
        ledger = ledger.settle(f"intent-{name}", outcome, at).settle(f"intent-{name}", outcome, at)
    assert [(hour.evictions, hour.dry_runs) for hour in ledger.hours] == [(1, 1), (2, 0), (2, 0)]
    assert ledger.mean_rate(NOW + 9_000, dry_run=False) == 5 / 86_400
    assert ledger.mean_rate(NOW + 9_000, dry_run=True) == 1 / 86_400
    assert ledger.mean_rate(NOW + 86_400 + 3_601, dry_run=False) == 2 / 86_400
    later = msgspec.structs.replace(ledger, entries=(an_entry("last", settled_at=None, outcome=None),))
    later = later.settle("intent-last", Outcome.EVICTED, NOW + 10 * 86_400)
    assert len(later.hours) == 1
    refused = msgspec.structs.replace(ledger, entries=(an_entry("no", settled_at=None, outcome=None),))
    assert refused.settle("intent-no", Outcome.BLOCKED_PDB, NOW, counted=False).hours == ledger.hours


def test_grace_begins_anew_after_an_outage() -> None:
    """Whichever of start and outage was last."""
    ledger = a_ledger(started_at=NOW - 5_000)

    def halved(ledger: Ledger) -> bool:
        return ledger.view(NOW, dry_run=False, migration_timeout=600, grace_period=3_600).halved

    assert not halved(ledger)
    assert halved(ledger.after_outage("the bus was away for 90 s", NOW - 3_599))
    assert not halved(ledger.after_outage("the bus was away for 90 s", NOW - 3_600))
    assert halved(msgspec.structs.replace(ledger, started_at=NOW - 10).after_outage("it", NOW - 4_000))


def test_what_a_look_finds() -> None:
    """Back ends a move, failing marks it until another look says otherwise, unknown changes nothing."""
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


def test_what_fails_is_not_forgotten() -> None:
    """Neither by age nor by a migration that took too long."""
    ledger = a_ledger(an_entry("a", failing_since=NOW), an_entry("b"))
    assert [entry.pod for entry in ledger.pruned(NOW + 9_000, memory=600).entries] == ["a"]
    view = ledger.view(NOW + 9_000, dry_run=False, migration_timeout=600)
    assert [entry.pod for entry in view.pending_replacements()] == ["a"]
    assert ledger.resume(NOW).pruned(NOW + 9_000, memory=600).entries == ()


LIMITS = Limits(
    evictions_per_workload=EvictionsPerWorkload(max=2, window=Duration(30)),
    evictions_per_namespace=EvictionsPerNamespace(max=3, window=Duration(40)),
    evictions_per_cluster=EvictionsPerCluster(max=4, window=Duration(50)),
    rate=EvictionRate(max=2, window=Duration(3)),
    migration_timeout=Duration(25),
    startup_grace_period=Duration(0),
)


ERROR = 0.4
"""Seconds by which the time of the API server is known to be off at most."""


class Machine(RuleBasedStateMachine):
    """Binders that reserve, sleep, evict, die and come back, in any order; evictions are counted by the world alone.

    Each reads the API server's clock with an error of its own, and knows its bounds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        """At the API server."""

        self.number = 0
        self.ledger = Ledger(created_at=NOW, started_at=NOW)
        self.reserved: dict[str, ProposedEviction] = {}
        self.posted: dict[str, tuple[float, ProposedEviction]] = {}
        """By intent: when the API server had the POST."""

    @rule(seconds=st.floats(0.1, 20))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(workload=st.sampled_from(["web", "db"]), namespace=st.sampled_from(["shop", "bank"]), off=st.floats(0, ERROR))
    def propose(self, workload: str, namespace: str, off: float) -> None:
        self.number += 1
        earliest, latest = self.now - off, self.now - off + ERROR
        intent = an_intent(f"pod-{self.number}", namespace=namespace, decided_at=earliest, expires_at=latest + LIFE)
        move = ProposedEviction(
            namespace=namespace,
            node=f"node-{self.number % 3}",
            workload=a_workload(workload, namespace),
            replicas=50,
            unready=0,
            cluster_pods=1_000,
        )
        admission = admit(intent, move, self.ledger, LIMITS, earliest, dry_run=False)
        if isinstance(admission, Proceed):
            entry = new_entry(intent, earliest, workload=move.workload, expires_at=intent.expires_at, dry_run=False)
            pruned = self.ledger.pruned(earliest, memory=LIMITS.memory + CLOCK_TOLERANCE)
            self.ledger = pruned.reserve(entry, epoch=intent.epoch)
            self.reserved[intent.id] = move

    def _open(self) -> list[str]:
        return [
            intent_id
            for intent_id in self.reserved
            if (entry := self.ledger.entry(intent_id)) is not None and entry.outcome is None
        ]

    def _unposted(self) -> list[str]:
        """Those for which somebody may still wake up and post."""
        return [
            intent_id
            for intent_id in self.reserved
            if intent_id not in self.posted
            and (entry := self.ledger.entry(intent_id)) is not None
            and (entry.counted or entry.outcome is None)
            and self.now < entry.expires_at
        ]

    @precondition(lambda self: self._unposted())
    @rule(data=st.data(), transit=st.floats(0, TRANSIT_TIME))
    def post(self, data: st.DataObject, transit: float) -> None:
        """Sent before the intent expires, received a moment later; nobody may live to write it down."""
        intent_id = data.draw(st.sampled_from(self._unposted()))
        self.now += transit
        self.posted[intent_id] = (self.now, self.reserved[intent_id])

    @precondition(lambda self: self._open())
    @rule(data=st.data(), off=st.floats(0, ERROR))
    def settle(self, data: st.DataObject, off: float) -> None:
        """Somebody looks, finds the pod gone or there, and writes the outcome."""
        intent_id = data.draw(st.sampled_from(self._open()))
        outcome = Outcome.EVICTED if intent_id in self.posted else Outcome.REJECTED_FIT
        self.ledger = self.ledger.settle(intent_id, outcome, self.now + off)

    @precondition(lambda self: any(intent_id not in self.posted for intent_id in self._open()))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        """The API server says no to the only POST there is."""
        intent_id = data.draw(st.sampled_from([each for each in self._open() if each not in self.posted]))
        self.ledger = self.ledger.settle(intent_id, Outcome.BLOCKED_PDB, self.now, counted=False)

    @precondition(lambda self: self.ledger.entries)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries))
        self.ledger = self.ledger.with_replacements({entry.intent_id: ReplacementStatus(state="ready")}, self.now)

    def _most_in(self, window: float, of: Any) -> int:
        """The most evictions of one thing in any window of this length, counted one by one."""
        events = sorted((at, of(move)) for at, move in self.posted.values())
        return max(
            (
                sum(1 for other, key in events if key == first_key and first <= other < first + window)
                for first, first_key in events
            ),
            default=0,
        )

    @invariant()
    def no_window_is_exceeded(self) -> None:
        assert self._most_in(30, lambda move: str(move.workload)) <= 2
        assert self._most_in(40, lambda move: move.namespace) <= 3
        assert self._most_in(50, lambda move: "cluster") <= 4


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestMachine = Machine.TestCase
