"""The ledger with the limits: single decisions, and a state machine that must never exceed a window."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry, an_eviction
from builders import NOW, a_workload, an_intent
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from equipoise.binder.decisions.admission import admit, deciding_replacements
from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerCluster,
    EvictionsPerNamespace,
    EvictionsPerWorkload,
    Limits,
    ProposedEviction,
)
from equipoise.binder.decisions.result import Finish, Proceed, Retry
from equipoise.binder.state.ledger import Ledger, ReplacementStatus
from equipoise.binder.state.ledger_entry import TRANSIT_TIME, LedgerEntry, new_entry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome

DEFAULT = Limits()


def admitted(ledger: Ledger, limits: Limits = DEFAULT, **fields: Any) -> Proceed[None] | Finish | Retry:
    return admit(an_intent(), an_eviction(**fields), ledger, limits, NOW, dry_run=False)


def deciding(ledger: Ledger, limits: Limits = DEFAULT, **fields: Any) -> list[str]:
    """The pods whose replacements must be read."""
    entries = deciding_replacements(an_intent(), an_eviction(**fields), ledger, limits, NOW, dry_run=False)
    return [entry.pod for entry in entries]


def long_ago(seconds: float = 400, **fields: Any) -> LedgerEntry:
    """An eviction of a sibling outside the window of its workload."""
    defaults = {"pod": "web-2", "settled_at": NOW - seconds, "reserved_at": NOW - seconds}
    return an_entry(**(defaults | fields))


def test_a_pause_refuses_before_any_limit() -> None:
    finish = admitted(a_ledger(an_entry("web-2"), paused=True, pause_reason="deploying"))
    assert isinstance(finish, Finish)
    assert (finish.outcome, finish.limit) == (Outcome.PAUSED, "")
    assert "deploying" in finish.detail


def test_a_pod_with_another_intent_is_refused() -> None:
    """Also when every limit agrees."""
    finish = admitted(a_ledger(long_ago(3_000, pod_uid="uid-web-1", intent_id="other", recovered_at=NOW)))
    assert isinstance(finish, Finish)
    assert "intent other is for the same pod" in finish.detail


def test_an_entry_that_nothing_needs_any_more_does_not_refuse_its_pod() -> None:
    """It remains in the ledger until the next write, which may be days later if this is the only pod that moves."""
    seconds = DEFAULT.retention + 100
    other = {"intent_id": "other", "pod_uid": "uid-web-1", "outcome": Outcome.FAILED, "expires_at": NOW - seconds}
    failed = long_ago(seconds, **other)
    assert isinstance(admitted(a_ledger(failed)), Proceed)
    assert isinstance(admitted(a_ledger(failed, retention=seconds + 600)), Finish)


def test_a_refusal_has_the_limit_and_its_scope() -> None:
    finish = admitted(a_ledger(an_entry("web-2")))
    assert isinstance(finish, Finish)
    assert (finish.limit, finish.limit_scope) == ("evictionsPerWorkload", "workload")


@pytest.mark.parametrize(("maximum", "expected"), [(1, Retry), (2, Proceed), (0, Finish)])
def test_the_rate_delays_and_refuses_only_at_zero(maximum: int, expected: type) -> None:
    limits = Limits(rate=EvictionRate(max=maximum, window=Duration(10)))
    result = admitted(a_ledger(an_entry("db-1", workload=a_workload("db"), reserved_at=NOW - 4)), limits)
    assert isinstance(result, expected)
    assert not isinstance(result, Retry) or result.after == 6


def test_pending_replacements_are_read_before_an_eviction() -> None:
    """One that fails refuses it."""
    pending = long_ago(60, pod="db-1", workload=a_workload("db"))
    recovered = msgspec.structs.replace(pending, intent_id="recovered", pod="db-2", recovered_at=NOW)
    assert deciding(a_ledger(pending, recovered)) == ["db-1"]
    assert deciding(a_ledger(msgspec.structs.replace(pending, dry_run=True))) == []


def test_pending_replacements_are_read_when_their_recovery_ends_the_refusal() -> None:
    """Not while a window refuses, and not while the rate delays."""
    assert deciding(a_ledger(long_ago()), replicas=3) == ["web-2"]
    assert deciding(a_ledger(long_ago(200)), replicas=3) == []
    assert deciding(a_ledger(long_ago(), paused=True), replicas=3) == []
    assert deciding(a_ledger(long_ago(60, workload=a_workload("db"), reserved_at=NOW - 0.5))) == []


LIFETIME = 20.0


LIMITS = Limits(
    evictions_per_workload=EvictionsPerWorkload(max=2, window=Duration(30)),
    evictions_per_namespace=EvictionsPerNamespace(max=3, window=Duration(40)),
    evictions_per_cluster=EvictionsPerCluster(max=4, window=Duration(50)),
    rate=EvictionRate(max=2, window=Duration(3)),
    migration_timeout=Duration(25),
    startup_grace_period=Duration(0),
)


ERROR = 0.4
"""The maximum error, in seconds, of the known time of the API server."""


class BindersAndLedger(RuleBasedStateMachine):
    """Binders that reserve, evict, crash and are suspended, in any order. Only the test counts evictions.

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
        intent = an_intent(f"pod-{self.number}", namespace=namespace, decided_at=earliest, expires_at=latest + LIFETIME)
        eviction = ProposedEviction(
            namespace=namespace,
            node=f"node-{self.number % 3}",
            workload=a_workload(workload, namespace),
            replicas=50,
            unready=0,
            cluster_pods=1_000,
        )
        admission = admit(intent, eviction, self.ledger, LIMITS, earliest, dry_run=False)
        if isinstance(admission, Proceed):
            entry = new_entry(intent, earliest, workload=eviction.workload, expires_at=intent.expires_at, dry_run=False)
            pruned = self.ledger.retaining(LIMITS.retention, earliest).pruned(earliest)
            self.ledger = pruned.reserve(entry, epoch=intent.epoch)
            self.reserved[intent.id] = eviction

    def _open(self) -> list[str]:
        return [
            intent_id
            for intent_id in self.reserved
            if (entry := self.ledger.entry(intent_id)) is not None and entry.outcome is None
        ]

    def _unposted(self) -> list[str]:
        """Intents for which a suspended binder may still send the POST."""
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
        """Sent before the intent expires and received later; the binder may crash before it records that."""
        intent_id = data.draw(st.sampled_from(self._unposted()))
        self.now += transit
        self.posted[intent_id] = (self.now, self.reserved[intent_id])

    @precondition(lambda self: self._open())
    @rule(data=st.data(), off=st.floats(0, ERROR))
    def settle(self, data: st.DataObject, off: float) -> None:
        """A binder reads the pod, which is gone or not, and records the outcome."""
        intent_id = data.draw(st.sampled_from(self._open()))
        outcome = Outcome.EVICTED if intent_id in self.posted else Outcome.REJECTED_FIT
        self.ledger = self.ledger.settle(intent_id, outcome, self.now + off)

    @precondition(lambda self: any(intent_id not in self.posted for intent_id in self._open()))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        """The API server refuses the only POST."""
        intent_id = data.draw(st.sampled_from([each for each in self._open() if each not in self.posted]))
        self.ledger = self.ledger.settle(intent_id, Outcome.BLOCKED_PDB, self.now, counted=False)

    @precondition(lambda self: self.ledger.entries)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.ledger.entries))
        self.ledger = self.ledger.with_replacements({entry.intent_id: ReplacementStatus(state="ready")}, self.now)

    def _max_in(self, window: float, of: Any) -> int:
        """The maximum of evictions with one key in any window of this length, counted one by one."""
        events = sorted((at, of(eviction)) for at, eviction in self.posted.values())
        return max(
            (
                sum(1 for other, key in events if key == first_key and first <= other < first + window)
                for first, first_key in events
            ),
            default=0,
        )

    @invariant()
    def no_window_is_exceeded(self) -> None:
        assert self._max_in(30, lambda eviction: str(eviction.workload)) <= 2
        assert self._max_in(40, lambda eviction: eviction.namespace) <= 3
        assert self._max_in(50, lambda eviction: "cluster") <= 4


BindersAndLedger.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestBindersAndLedger = BindersAndLedger.TestCase
