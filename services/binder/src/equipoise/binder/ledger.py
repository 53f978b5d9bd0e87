"""The ledger: every eviction that was reserved or carried out lately, and whether anything may move at all.

It is one JSON document that all binders share; whoever writes it proves by compare-and-swap that he read the newest
one. So a limit that holds on the document holds in the cluster, however many binders there are and whenever they die.
All times are the API server's. As its clock is known through its answers only, a decision is made at the earliest time
that it can be and what is over is written down with the latest: so no window ends early.
"""

from collections.abc import Callable, Collection

import msgspec

from equipoise.contracts.messages import EvictionIntent, LeaseEpoch, Outcome
from equipoise.contracts.workload import Workload

CLOCK_TOLERANCE = 0.05
"""Seconds by which the clocks of several API servers may differ. Windows last this much longer."""

IN_TRANSIT = 1.0
"""Seconds that a POST sent in the last moment of an intent's life may need until the API server has received it."""

CERTAIN = (Outcome.EVICTED, Outcome.DRY_RUN)
"""Outcomes that stand on what was seen: the API server had the POST when they were written."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One intent: reserved, carried out, or answered without either."""

    intent_id: str
    pod_uid: str
    namespace: str
    pod: str
    node: str
    workload: Workload | None = None
    target: str = ""
    dry_run: bool = False
    reserved_at: float
    """When it was decided."""

    expires_at: float
    """Nothing is posted for the intent after this, by any binder."""

    settled_at: float | None = None
    outcome: Outcome | None = None
    detail: str = ""
    limit: str = ""
    room_at: float | None = None
    counted: bool = True
    """Against the limits. False: refused before or by the API server, remembered only to answer the same again."""

    taken_over: bool = False
    """Another binder than the one that reserved it may post it too, so no refusal gives its place back."""

    recovered_at: float | None = None
    """When its pod was seen gone and its workload with all replicas ready."""

    @property
    def latest(self) -> float:
        """The latest time at which the API server can have received its POST; windows are counted from here.

        Whatever else was written for it while it was reserved: a binder that sleeps may wake up and still post.
        """
        if self.settled_at is not None and self.outcome in CERTAIN:
            return self.settled_at
        return max(self.settled_at or self.reserved_at, self.expires_at + IN_TRANSIT)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What limits see of a ledger: the entries that count, at one moment."""

    now: float
    entries: tuple[Entry, ...]
    migration_timeout: float
    """Seconds after which a lost replica counts as given up, so that it holds nothing up any more."""

    halved: bool = False
    """Start-up grace: every limit is half of itself, rounded up."""

    def within(self, window: float) -> list[Entry]:
        """Entries whose eviction may have happened in the last `window` seconds."""
        return [entry for entry in self.entries if self.now - entry.latest < window + CLOCK_TOLERANCE]

    def in_migration(self) -> list[Entry]:
        """Entries whose workload may not have its replica back."""
        return [entry for entry in self.within(self.migration_timeout) if entry.recovered_at is None]

    def assuming_recovered(self) -> "View":
        """The view if every replica were back."""
        entries = tuple(msgspec.structs.replace(entry, recovered_at=self.now) for entry in self.entries)
        return msgspec.structs.replace(self, entries=entries)


class Ledger(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document. Every change gives a new one."""

    created_at: float
    started_at: float
    """When evictions were last allowed: at creation, or by `equipoise resume`. Start-up grace counts from here."""

    paused: bool = False
    paused_why: str = ""
    epoch: LeaseEpoch | None = None
    """The newest descheduler that anything was reserved for."""

    entries: tuple[Entry, ...] = ()

    def entry(self, intent_id: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.intent_id == intent_id), None)

    def entry_of_pod(self, pod_uid: str, *, dry_run: bool) -> Entry | None:
        """An entry that counts and moves, or has moved, this very pod."""
        return next(
            (
                entry
                for entry in self.entries
                if entry.counted and entry.dry_run == dry_run and entry.pod_uid == pod_uid
            ),
            None,
        )

    def view(self, now: float, *, dry_run: bool, migration_timeout: float, grace: float = 0.0) -> View:
        """The entries of one kind, dry or real, that count."""
        return View(
            now=now,
            entries=tuple(entry for entry in self.entries if entry.counted and entry.dry_run == dry_run),
            migration_timeout=migration_timeout,
            halved=now - self.started_at < grace,
        )

    def reserve(self, entry: Entry, *, epoch: LeaseEpoch) -> "Ledger":
        """Counts from now on. ValueError when the intent has an entry."""
        self._require_new(entry)
        return msgspec.structs.replace(self, entries=(*self.entries, entry), epoch=epoch)

    def settle(
        self, intent_id: str, outcome: Outcome, now: float, *, detail: str = "", counted: bool = True
    ) -> "Ledger":
        """Writes the outcome of a reserved entry; an entry that has one keeps it.

        `counted=False` gives the reservation back: only after a definite refusal of that very POST.
        """

        def change(entry: Entry) -> Entry:
            if entry.settled_at is not None:
                return entry
            counts = counted or entry.taken_over
            return msgspec.structs.replace(entry, outcome=outcome, detail=detail, settled_at=now, counted=counts)

        return self._changed(intent_id, change)

    def take_over(self, intent_id: str) -> "Ledger":
        """Somebody else goes on with a reservation that nobody has settled."""
        return self._changed(intent_id, lambda entry: msgspec.structs.replace(entry, taken_over=True))

    def release(self, intent_id: str) -> "Ledger":
        """Forgets a reservation whose POST was definitely refused for now: the intent will be decided again."""
        return msgspec.structs.replace(
            self,
            entries=tuple(
                entry
                for entry in self.entries
                if entry.intent_id != intent_id or entry.settled_at is not None or entry.taken_over
            ),
        )

    def answer(self, entry: Entry) -> "Ledger":
        """Remembers an outcome that nothing was reserved for, so that the same intent is never decided twice."""
        self._require_new(entry)
        answered = msgspec.structs.replace(entry, counted=False, settled_at=entry.reserved_at)
        return msgspec.structs.replace(self, entries=(*self.entries, answered))

    def recovered(self, intent_ids: Collection[str], now: float) -> "Ledger":
        """These workloads have their replica back."""
        return msgspec.structs.replace(
            self,
            entries=tuple(
                msgspec.structs.replace(entry, recovered_at=now)
                if entry.intent_id in intent_ids and entry.recovered_at is None
                else entry
                for entry in self.entries
            ),
        )

    def pruned(self, now: float, *, memory: float) -> "Ledger":
        """Without the entries that no limit needs (older than `memory` seconds) and no redelivery can ask for."""
        return msgspec.structs.replace(
            self,
            entries=tuple(
                entry
                for entry in self.entries
                if now <= entry.expires_at or (entry.counted and now - entry.latest <= memory)
            ),
        )

    def without_answers(self) -> "Ledger":
        """Without what is remembered only to answer the same again."""
        return msgspec.structs.replace(self, entries=tuple(entry for entry in self.entries if entry.counted))

    def pause(self, why: str) -> "Ledger":
        return msgspec.structs.replace(self, paused=True, paused_why=why)

    def resume(self, now: float) -> "Ledger":
        return msgspec.structs.replace(self, paused=False, paused_why="", started_at=now)

    def _require_new(self, entry: Entry) -> None:
        if self.entry(entry.intent_id) is not None:
            raise ValueError(f"intent {entry.intent_id} is in the ledger already")

    def _changed(self, intent_id: str, change: Callable[[Entry], Entry]) -> "Ledger":
        return msgspec.structs.replace(
            self,
            entries=tuple(change(entry) if entry.intent_id == intent_id else entry for entry in self.entries),
        )


def entry_of(
    intent: EvictionIntent, now: float, *, workload: Workload | None, expires_at: float, dry_run: bool
) -> Entry:
    """An entry that nothing is decided of yet. `workload`: as it was found live."""
    return Entry(
        intent_id=intent.id,
        pod_uid=intent.pod_uid,
        namespace=intent.namespace,
        pod=intent.pod,
        node=intent.node,
        workload=workload,
        target=intent.target,
        dry_run=dry_run,
        reserved_at=now,
        expires_at=expires_at,
    )
