"""The ledger: every eviction that was reserved or carried out lately, and whether anything may move at all.

It is one JSON document that all binders share; whoever writes it proves by compare-and-swap that he read the newest
one. So a limit that holds on the document holds in the cluster, however many binders there are and whenever they die.
All times are the API server's. As its clock is known through its answers only, a decision is made at the earliest time
that it can be and what is over is written down with the latest: so no window ends early.
"""

from collections.abc import Callable, Collection, Mapping

import msgspec

from equipoise.binder.state.ledger_entry import CERTAIN, IN_TRANSIT, Entry, Replacement
from equipoise.binder.state.ledger_view import CLOCK_TOLERANCE, View
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.lease import LeaseEpoch

__all__ = [
    "CERTAIN", "CLOCK_TOLERANCE", "DAY", "HOUR", "IN_TRANSIT", "Closed", "Entry", "Hour", "Ledger", "Replacement",
    "View", "entry_of",
]  # fmt: skip

HOUR = 3_600.0
DAY = 24 * HOUR


class Hour(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was carried out in one hour, so that it is known what is usual."""

    begin: float
    """A full hour, Unix seconds."""

    evictions: int = 0
    dry_runs: int = 0


class Ledger(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document. Every change gives a new one."""

    created_at: float
    started_at: float
    """When evictions were last allowed: at creation, or by `equipoise resume`. Start-up grace counts from here,"""

    disturbed_at: float | None = None
    """or from the end of the last outage, which every binder may write that had one."""

    disturbance: str = ""
    """What was away then, and for how long."""

    paused: bool = False
    paused_why: str = ""
    epoch: LeaseEpoch | None = None
    """The newest descheduler that anything was reserved for."""

    hours: tuple[Hour, ...] = ()
    """What was carried out in each hour of the last day, oldest first; hours without anything are left out."""

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
            halved=now < self.grace_ends_at(grace),
            usual=self.usual(now, dry_run=dry_run),
        )

    def grace_ends_at(self, grace: float) -> float:
        """Until when every limit is half of itself, if it is so for `grace` seconds."""
        return max(self.started_at, self.disturbed_at or 0.0) + grace

    def usual(self, now: float, *, dry_run: bool) -> float:
        """Evictions (or dry runs) per second, the mean of the last 24 hours; a young ledger had none before."""
        counted = [hour for hour in self.hours if hour.begin > now - DAY]
        return sum(hour.dry_runs if dry_run else hour.evictions for hour in counted) / DAY

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

        before = self.entry(intent_id)
        settled = self._changed(intent_id, change)
        if before is None or before.settled_at is not None or outcome not in CERTAIN:
            return settled
        return settled._counting(now, dry_run=outcome == Outcome.DRY_RUN)

    def _counting(self, now: float, *, dry_run: bool) -> "Ledger":
        """One more in its hour; what is older than a day is dropped."""
        begin = now - now % HOUR
        hours = {hour.begin: hour for hour in self.hours if hour.begin > now - DAY - HOUR}
        hour = hours.get(begin, Hour(begin=begin))
        hours[begin] = Hour(
            begin=begin, evictions=hour.evictions + (not dry_run), dry_runs=hour.dry_runs + bool(dry_run)
        )
        return msgspec.structs.replace(self, hours=tuple(hours[key] for key in sorted(hours)))

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

    def seen(self, replacements: Mapping[str, Replacement], now: float) -> "Ledger":
        """What a look at the replacements of these intents found."""

        def look(entry: Entry) -> Entry:
            found = replacements.get(entry.intent_id)
            if found is None or found.state == "unknown" or entry.recovered_at is not None:
                return entry
            if found.state == "back":
                return msgspec.structs.replace(entry, recovered_at=now, failing_since=None, failing="")
            since = (entry.failing_since or now) if found.state == "failing" else None
            return msgspec.structs.replace(entry, failing_since=since, failing=found.why if since else "")

        return msgspec.structs.replace(self, entries=tuple(look(entry) for entry in self.entries))

    def after_outage(self, why: str, now: float) -> "Ledger":
        """Something that evictions stand on was away until now."""
        return msgspec.structs.replace(self, disturbed_at=now, disturbance=why)

    def pruned(self, now: float, *, memory: float) -> "Ledger":
        """Without the entries that no limit needs (older than `memory` seconds) and no redelivery can ask for."""
        return msgspec.structs.replace(
            self,
            entries=tuple(
                entry
                for entry in self.entries
                if now <= entry.expires_at
                or (entry.counted and now - entry.latest <= memory)
                or (entry.counted and entry.failing_since is not None and entry.recovered_at is None)
            ),
        )

    def without_answers(self) -> "Ledger":
        """Without what is remembered only to answer the same again."""
        return msgspec.structs.replace(self, entries=tuple(entry for entry in self.entries if entry.counted))

    def pause(self, why: str) -> "Ledger":
        return msgspec.structs.replace(self, paused=True, paused_why=why)

    def resume(self, now: float) -> "Ledger":
        """A person has looked: what cannot be created stops others again only when it is seen again."""
        entries = tuple(msgspec.structs.replace(entry, failing_since=None, failing="") for entry in self.entries)
        return msgspec.structs.replace(self, paused=False, paused_why="", started_at=now, entries=entries)

    def _require_new(self, entry: Entry) -> None:
        if self.entry(entry.intent_id) is not None:
            raise ValueError(f"intent {entry.intent_id} is in the ledger already")

    def _changed(self, intent_id: str, change: Callable[[Entry], Entry]) -> "Ledger":
        return msgspec.structs.replace(
            self,
            entries=tuple(change(entry) if entry.intent_id == intent_id else entry for entry in self.entries),
        )


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """There is no ledger to rely on."""

    why: str
    """And what to do."""


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
