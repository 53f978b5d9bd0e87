"""Storage of the ledger: one ConfigMap, written by compare-and-swap only.

Missing, empty or unreadable means closed: nothing may be evicted. Only setup and `equipoise resume` create a ledger,
because a new one does not have the recent evictions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.binder.state.ledger_json import KeptMoves, NewerFormat, decode, encode, kept_moves, summary
from equipoise.binder.state.ledger_times import with_possible_times
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, NAMESPACES, Conflict, Forbidden, Kube, NotFound
from equipoise.runtime.process.clock import Clock

NAME = "equipoise-ledger"
KEY = "ledger"
SUMMARY = "summary"
"""The key of the summary for people; it is never read back."""

RESERVE_BYTES = 900_000
"""Nothing new is reserved in a document above this size; a ConfigMap holds 1 MiB."""

_CAS_ATTEMPTS = 20

ADVICE = "check what was evicted lately, then run `equipoise resume`"
_FORGET = f"{ADVICE} --forget"
_DETACHED = "`equipoise doctor detached` names pods that a move without a gap has left"
NO_MOVES = KeptMoves()


class StoredLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger as it was read; a write with it fails when another binder wrote since."""

    ledger: Ledger
    config_map: ConfigMap


class LedgerFull(Exception):
    """No room for another entry."""


class NotDone(Exception):
    """The ledger was not changed; the message contains the reason and what to do."""


class NotInstalled(NotDone):
    """The namespace of Equipoise does not exist."""


@dataclass
class LedgerStore:
    kube: Kube
    namespace: str

    async def read(self) -> StoredLedger | LedgerClosed:
        """Raises KubeError when the API server does not respond."""
        where = f"ConfigMap {self.namespace}/{NAME}"
        try:
            config_map = await self.kube.get(CONFIG_MAPS, NAME, self.namespace)
        except NotFound:
            return LedgerClosed(why=f"{where}, the ledger of evictions, is missing: {ADVICE}", missing=True)
        except Forbidden as error:
            why = f"{where} may not be read: {error.message}. Grant `get` and `update` on it"
            return LedgerClosed(why=why, unreadable=True)
        if KEY not in config_map.data:
            return LedgerClosed(why=f"{where} holds no ledger (data.{KEY}): {_FORGET}")
        try:
            ledger = decode(config_map.data[KEY])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return LedgerClosed(why=f"{where} is invalid ({error}): {_FORGET}")
        except NewerFormat as error:
            advice = "upgrade this binder, or go back with `equipoise resume --forget` when no newer one runs"
            return LedgerClosed(why=f"{where} was written by a later version: {error}; {advice}", newer=True)
        return StoredLedger(ledger=ledger, config_map=config_map)

    async def write(self, stored: StoredLedger, ledger: Ledger, *, reserving: bool = False) -> None:
        """Keeps other keys of the ConfigMap: a later version may use them.

        Raises Conflict after another write since `stored` was read, LedgerFull when `reserving` in a full ledger.
        """
        others = {key: text for key, text in stored.config_map.data.items() if key not in (KEY, SUMMARY)}
        data = others | _data(ledger)
        if _size(data) > RESERVE_BYTES:
            data = others | _data(ledger.without_refusals())
            if reserving and _size(data) > RESERVE_BYTES:
                raise LedgerFull(f"the ledger has {_size(data)} bytes: too many evictions in its windows")
        await self.kube.replace(CONFIG_MAPS, msgspec.structs.replace(stored.config_map, data=data))


def _data(ledger: Ledger) -> dict[str, str]:
    return {SUMMARY: summary(ledger), KEY: encode(ledger)}


def _size(data: dict[str, str]) -> int:
    return sum(len(text.encode()) for text in data.values())


def _new(kube: Kube, namespace: str, clock: Clock, kept: KeptMoves = NO_MOVES) -> ConfigMap:
    _, now = kube.server_time_bounds(clock.now())
    ledger = Ledger(created_at=now, started_at=now, entries=kept.entries, surge_moves=kept.moves)
    ledger = with_possible_times(ledger, now)
    return ConfigMap(metadata=ObjectMeta(name=NAME, namespace=namespace), data=_data(ledger))


async def create_ledger(kube: Kube, namespace: str, clock: Clock) -> bool:
    """Creates a ledger where there is none, for setup. False when there is one already, whatever it holds."""
    try:
        await kube.create(CONFIG_MAPS, _new(kube, namespace, clock))
    except Conflict:
        return False
    return True


async def read_installed(kube: Kube, namespace: str) -> StoredLedger | LedgerClosed:
    """Reads the ledger for commands, which may be used with a cluster that has no Equipoise.

    Raises NotInstalled if the namespace does not exist, and KubeError when the API server does not respond.
    """
    stored = await LedgerStore(kube, namespace).read()
    if isinstance(stored, LedgerClosed) and stored.missing:
        try:
            await kube.get(NAMESPACES, namespace)
        except NotFound:
            raise _not_installed(namespace) from None
        except Forbidden as error:
            why = f"{stored.why}. Whether namespace {namespace} exists is unknown: {error.message}"
            return msgspec.structs.replace(stored, why=why)
    return stored


def _not_installed(namespace: str) -> NotInstalled:
    return NotInstalled(
        f"namespace {namespace} does not exist: Equipoise is not installed in this cluster, or it is in another "
        "namespace (--namespace, or `kubernetes.namespace` of --config)"
    )


async def pause(kube: Kube, namespace: str, reason: str) -> str:
    """Pauses evictions: nothing can be reserved from now on. Returns a sentence about what was done.

    Raises KubeError, and NotDone if there is no ledger that can be paused.
    """
    await change_ledger(kube, namespace, lambda ledger: ledger.pause(reason), not_done="NOT paused")
    return "paused: within 5 s nothing more is evicted, until `equipoise resume`"


async def change_ledger(kube: Kube, namespace: str, change: Callable[[Ledger], Ledger], *, not_done: str) -> Ledger:
    """Changes the ledger for a command, and returns what was written. `not_done`: the beginning of an error.

    Raises KubeError, NotDone if there is no ledger that can be changed, and what `change` raises.
    """
    store = LedgerStore(kube, namespace)
    for _ in range(_CAS_ATTEMPTS):
        stored = await read_installed(kube, namespace)
        if isinstance(stored, LedgerClosed):
            certain = "" if stored.unreadable or stored.newer else "; binders evict nothing without a ledger"
            raise NotDone(f"{not_done}: {stored.why}{certain}")
        ledger = change(stored.ledger)
        try:
            await store.write(stored, ledger)
        except Conflict:
            continue
        return ledger
    raise Conflict(409, "Conflict", f"the ledger changed {_CAS_ATTEMPTS} times in a row: try again")


async def resume(kube: Kube, namespace: str, clock: Clock, *, forget: bool = False) -> str:
    """Evictions are allowed again, with the grace period. Creates a missing ledger.

    `forget`: replaces a ledger that cannot be read, with all evictions that still count. Moves without a gap are kept:
    without them, nobody would end the pods that they have detached. Raises KubeError, and NotDone for such a ledger
    without `forget`.
    """
    store = LedgerStore(kube, namespace)
    for _ in range(_CAS_ATTEMPTS):
        try:
            stored = await read_installed(kube, namespace)
            if isinstance(stored, StoredLedger):
                _, now = kube.server_time_bounds(clock.now())
                await store.write(stored, with_possible_times(stored.ledger, now).resume(now))
                return "resumed"
            try:
                created = await create_ledger(kube, namespace, clock)
            except NotFound:
                raise _not_installed(namespace) from None
            if created:
                return f"resumed with a new ledger: earlier evictions are forgotten. {_DETACHED}"
            if not forget:
                raise NotDone(f"NOT resumed: {stored.why}")
            broken = await kube.get(CONFIG_MAPS, NAME, namespace)
            kept = kept_moves(broken.data.get(KEY, ""))
            fresh = _new(kube, namespace, clock, kept)
            await kube.replace(CONFIG_MAPS, msgspec.structs.replace(broken, data=fresh.data))
            pods = ", ".join(move.intent.pod_name for move in kept.moves)
            moves = f"; the moves without a gap of {pods} are kept" if pods else ""
            lost = f". {_DETACHED}" if kept.lost else ""
            return f"resumed with a new ledger: earlier evictions are forgotten ({stored.why}){moves}{lost}"
        except (Conflict, NotFound):
            continue
    raise Conflict(409, "Conflict", f"the ledger changed {_CAS_ATTEMPTS} times while resuming: try again")
