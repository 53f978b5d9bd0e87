"""Where the ledger is kept: one ConfigMap, written by compare-and-swap only.

Missing, empty or unreadable means closed: nothing may move. Nothing here makes a ledger by itself; setup and
`equipoise resume` do, because a ledger that reappears empty has forgotten every recent eviction.
"""

import msgspec

from equipoise.binder.state.ledger import Closed, Ledger
from equipoise.binder.state.ledger_json import decode, encode, summary
from equipoise.contracts.kubernetes.objects import ConfigMap, ObjectMeta
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Conflict, Forbidden, Kube, NotFound
from equipoise.runtime.process.clock import Clock

NAME = "equipoise-ledger"
KEY = "ledger"
SUMMARY = "summary"
"""For people; nothing reads it back."""

RESERVE_BYTES = 900_000
"""Nothing new is reserved in a document of this size; a ConfigMap holds 1 MiB."""

_CAS_ATTEMPTS = 20

_ADVICE = "look at what was evicted lately, then run `equipoise resume`"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger as it was read; writing proves that nobody wrote since."""

    ledger: Ledger
    config_map: ConfigMap


class LedgerFull(Exception):
    """No room for another entry."""


class LedgerStore:
    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    async def read(self) -> Held | Closed:
        """Raises KubeError when the API server has no answer."""
        where = f"ConfigMap {self._namespace}/{NAME}"
        try:
            config_map = await self._kube.get(CONFIG_MAPS, NAME, self._namespace)
        except NotFound:
            return Closed(why=f"{where}, the ledger of evictions, is missing: {_ADVICE}")
        except Forbidden as error:
            return Closed(why=f"{where} may not be read: {error.message}. Grant `get` and `update` on it")
        if KEY not in config_map.data:
            return Closed(why=f"{where} holds no ledger (data.{KEY}): {_ADVICE}")
        try:
            ledger = decode(config_map.data[KEY])
        except (msgspec.MsgspecError, UnicodeError) as error:
            return Closed(why=f"{where} cannot be understood ({error}): {_ADVICE}")
        return Held(ledger=ledger, config_map=config_map)

    async def write(self, held: Held, ledger: Ledger, *, reserving: bool = False) -> None:
        """Raises Conflict when somebody wrote since `held` was read, LedgerFull when `reserving` in a full one."""
        data = _data(ledger)
        if _size(data) > RESERVE_BYTES:
            data = _data(ledger.without_answers())
            if reserving and _size(data) > RESERVE_BYTES:
                raise LedgerFull(f"the ledger has {_size(data)} bytes: too many evictions in its windows")
        await self._kube.replace(CONFIG_MAPS, msgspec.structs.replace(held.config_map, data=data))


def _data(ledger: Ledger) -> dict[str, str]:
    return {SUMMARY: summary(ledger), KEY: encode(ledger)}


def _size(data: dict[str, str]) -> int:
    return sum(len(text.encode()) for text in data.values())


def _new(kube: Kube, namespace: str, clock: Clock) -> ConfigMap:
    _, now = kube.server_time_bounds(clock.now())
    ledger = Ledger(created_at=now, started_at=now)
    return ConfigMap(metadata=ObjectMeta(name=NAME, namespace=namespace), data=_data(ledger))


async def create_ledger(kube: Kube, namespace: str, clock: Clock) -> bool:
    """For setup: makes a ledger where there is none. False when there is one already, whatever is in it."""
    try:
        await kube.create(CONFIG_MAPS, _new(kube, namespace, clock))
    except Conflict:
        return False
    return True


async def pause(kube: Kube, namespace: str, why: str) -> str:
    """Nothing can be reserved from now on. Returns what was done, as people read it. Raises KubeError."""
    store = LedgerStore(kube, namespace)
    for _ in range(_CAS_ATTEMPTS):
        held = await store.read()
        if isinstance(held, Closed):
            return f"nothing can move anyway: {held.why}"
        try:
            await store.write(held, held.ledger.pause(why))
        except Conflict:
            continue
        return "paused: nothing is evicted until `equipoise resume`"
    raise Conflict(409, "Conflict", f"the ledger changed {_CAS_ATTEMPTS} times while pausing: try again")


async def resume(kube: Kube, namespace: str, clock: Clock) -> str:
    """Evictions may happen again, in start-up grace; makes a ledger where none can be read. Raises KubeError."""
    store = LedgerStore(kube, namespace)
    for _ in range(_CAS_ATTEMPTS):
        try:
            held = await store.read()
            if isinstance(held, Held):
                _, now = kube.server_time_bounds(clock.now())
                await store.write(held, held.ledger.resume(now))
                return "resumed"
            if await create_ledger(kube, namespace, clock):
                return "resumed with a new ledger: evictions before this moment are forgotten"
            broken = await kube.get(CONFIG_MAPS, NAME, namespace)
            fresh = _new(kube, namespace, clock)
            await kube.replace(CONFIG_MAPS, msgspec.structs.replace(broken, data=fresh.data))
            return f"resumed with a new ledger: evictions before this moment are forgotten ({held.why})"
        except (Conflict, NotFound):
            continue
    raise Conflict(409, "Conflict", f"the ledger changed {_CAS_ATTEMPTS} times while resuming: try again")
