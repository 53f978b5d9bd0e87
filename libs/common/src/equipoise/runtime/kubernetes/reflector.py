"""A copy of a collection of the API server, always up to date: one streaming list, then its changes."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from sys import getrefcount, intern
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
import structlog

from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.async_tools.batching import in_batches
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import Change, Expired, Kube, KubeError, Resource
from equipoise.runtime.kubernetes.unreadable_objects import object_name
from equipoise.runtime.process.clock import Clock

T = TypeVar("T", bound=Object)
S = TypeVar("S", bound=msgspec.Struct)
Key = tuple[str, str]
"""The namespace and name of an object."""

INACTIVITY_SECONDS = 90.0
"""Seconds without events after which a watch counts as failed. A working watch has a bookmark about once a minute, so
this must be above 75 s."""

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
SHORT_LIFE_SECONDS = 5.0
"""A watch that ends sooner counts as failed, even if it ends normally, because an unhealthy server closes watches at
once."""

BATCH = 500
"""The number of objects of a list that are reported before other tasks run."""

INACTIVE = "Inactive"
OLDER_LIST = "OlderList"
LIST_AGAIN = (INACTIVE, OLDER_LIST, "Unreadable")
"""Reasons after which a watch from the last version would be wrong, or fail permanently."""

log = structlog.get_logger()

OWN_TEXTS = frozenset({"name", "uid", "resource_version"})
"""Texts that no two objects have in common, so that they are not shared."""

FEW_PARTS = 50
"""Unused parts are searched only when at least this many parts are stored."""

_replace = msgspec.structs.replace
_NO_ITEMS: list[Any] = []
_NO_ENTRIES: dict[str, Any] = {}


def _with_shared_texts(status: S) -> S:
    """An equal status. The texts of its conditions, such as `PodScheduled` and `True`, are most of the memory of a
    running pod's status."""
    names, parts = status.__struct_fields__, msgspec.structs.astuple(status)
    changed: dict[str, Any] = {name: intern(part) for name, part in zip(names, parts, strict=True) if type(part) is str}
    if conditions := getattr(status, "conditions", None):
        changed["conditions"] = [
            _replace(item, type=intern(item.type), status=intern(item.status), reason=intern(item.reason))
            for item in conditions
        ]
    return _replace(status, **changed)


class Interner:
    """Makes equal labels, containers, tolerations... of objects of one kind the same values in memory.

    Objects are frozen and their parts are never changed, so sharing has no other effect.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], Any] = {}
        self._limit = FEW_PARTS
        self._encode = msgspec.msgpack.Encoder().encode

    def intern(self, value: T, before: T | None = None) -> T:
        """An equal object whose metadata and spec consist of shared parts. Of its status only the texts are shared.

        `before`: the result for an earlier version of the object. Comparing with it is faster than searching.
        """
        fields: dict[str, Any] = {
            "metadata": self._section(value.metadata, None if before is None else before.metadata)
        }
        spec, earlier = getattr(value, "spec", None), getattr(before, "spec", None)
        if isinstance(spec, msgspec.Struct):
            fields["spec"] = earlier if spec == earlier else self._section(spec, earlier)
        if isinstance(status := getattr(value, "status", None), msgspec.Struct):
            fields["status"] = _with_shared_texts(status)
        return msgspec.structs.replace(value, **fields)

    def _section(self, section: msgspec.Struct, before: msgspec.Struct | None) -> msgspec.Struct:
        changed: dict[str, Any] = {}
        for name, part in zip(section.__struct_fields__, msgspec.structs.astuple(section), strict=True):
            if not part:  # most fields of most objects
                if type(part) is list:
                    changed[name] = _NO_ITEMS
                elif type(part) is dict:
                    changed[name] = _NO_ENTRIES
            elif before is not None and (earlier := getattr(before, name)) == part:
                changed[name] = earlier
            elif type(part) is str:
                if name not in OWN_TEXTS:
                    changed[name] = intern(part)
            elif isinstance(part, (list, dict, msgspec.Struct)):
                changed[name] = self._part(name, part)
        return msgspec.structs.replace(section, **changed)

    def _part(self, name: str, part: Any) -> Any:
        if len(self._parts) >= self._limit:
            self._forget_unused()
        return self._parts.setdefault((name, self._encode(part)), part)

    def _forget_unused(self) -> None:
        """Forgets parts that no object contains any more. Otherwise parts of deleted objects would accumulate.

        It runs again when the number of parts has grown by half, so that its cost per part is constant.
        """
        probe = ("", b"")
        self._parts[probe] = []  # a part to which only this table refers
        references = {key: getrefcount(part) for key, part in self._parts.items()}
        for key, count in references.items():
            if count <= references[probe]:
                del self._parts[key]
        self._limit = max(FEW_PARTS, len(self._parts) * 3 // 2)


class Reflector(Generic[T]):
    """`objects` mirrors the API server; `on_change(before, after)` is called for every difference, None for absent.

    A deletion that no watch reported is reported when the collection is listed again. A new object with an old name is
    reported as a deletion and a creation. `on_change` is called in the event loop, after `objects` was changed. If it
    raises, or if a part of an object cannot be decoded (`metadata.unreadable`), the object is named in `unreadable` of
    the client, and all others are followed.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource[T],
        *,
        clock: Clock,
        on_change: Callable[[T | None, T | None], None] | None = None,
        namespace: str = "",
        field_selector: str = "",
        trim: Callable[[T], T] | None = None,
        inactivity: float = INACTIVITY_SECONDS,
    ) -> None:
        """`trim` removes unused fields before an object is stored. `inactivity`: seconds without events."""
        self._kube = kube
        self._resource = resource
        self._clock = clock
        self._on_change = on_change
        self._namespace = namespace
        self._field_selector = field_selector
        self._trim = trim
        self._inactivity = inactivity
        self._sharing = Interner()
        self._unreadable: set[Key] = set()
        """The objects that are reported as unreadable."""

        self._objects: dict[Key, T] = {}
        self._since = ""
        """The last received version; empty before the first list."""

        self._list_again = True
        """Whether the next watch begins with a list."""

        self._behind = False
        """Whether the last list was older than this copy."""

        self._synced = asyncio.Event()
        self._received_at = -math.inf
        self._current_at = -math.inf
        self.problem: str | None = "not yet listed"
        """Why the collection may be out of date; None while it is followed."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """The objects, by namespace and name; always the same mapping."""
        return self._objects

    @property
    def age(self) -> float:
        """Seconds since the server last confirmed this state; infinite before the first list.

        Up to about a minute for a collection without changes.
        """
        return self._clock.monotonic() - self._current_at

    async def wait_synced(self, timeout: float) -> None:
        """Returns once everything was listed and reported; TimeoutError, with the reason, after `timeout` seconds."""
        try:
            await run_with_guard(self._synced.wait(), timeout_after(self._clock, timeout))
        except TimeoutError:
            raise TimeoutError(f"{self._resource.plural} not listed within {timeout:g} s: {self.problem}") from None

    async def run(self) -> None:
        """Follows the collection. Never returns."""
        failures = 0
        while True:
            started = self._received_at = self._clock.monotonic()
            try:
                await run_with_guard(self._follow(), self._check_activity())
            except KubeError as error:
                self.problem = str(error)
                self._list_again = self._list_again or isinstance(error, Expired) or error.reason in LIST_AGAIN
                log.warning("watch failed", resource=self._resource.plural, error=self.problem, list=self._list_again)
            failures = 0 if self._clock.monotonic() - started >= SHORT_LIFE_SECONDS else failures + 1
            if failures:
                longest = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))
                await self._clock.sleep(longest * random.uniform(0.5, 1.0))

    async def _follow(self) -> None:
        """Follows one watch, from the last version or from a new list."""
        since = "" if self._list_again else self._since
        changes = self._kube.watch(
            self._resource, since=since, namespace=self._namespace, field_selector=self._field_selector
        )
        async with aclosing(changes):
            if self._list_again:
                await self._list(changes)
            async for change in changes:
                self._received_at = self._current_at = self._clock.monotonic()
                self._since = change.resource_version or self._since  # an undecodable object may lack its version
                self.problem = None
                if change.object is not None:
                    key = _key(change.object)
                    self._set(key, None if change.kind == "deleted" else self._trimmed(change.object, key))

    async def _list(self, changes: AsyncGenerator[Change[T], None]) -> None:
        """Receives the whole initial list. Changes are reported after its end, if its version is accepted."""
        listed: dict[Key, T] = {}
        nameless = ""  # why an object has no decodable name; it is reported, but not stored
        async for change in changes:
            self._received_at = self._clock.monotonic()
            if change.object is not None:
                key = _key(change.object)
                if key[1]:
                    listed[key] = self._stored_or_new(change.object, key)
                else:
                    nameless = change.object.metadata.unreadable or "it has no name"
            if change.synced:
                self._check_version(change.resource_version)
                self._report_unreadable(("", ""), nameless)
                await self._replace(listed)
                self._since, self._list_again = change.resource_version, False
                self._current_at = self._clock.monotonic()
                self.problem = None
                self._synced.set()
                return
        raise KubeError(0, "Broken", f"the list of {self._resource.plural} ended early")

    def _check_version(self, version: str) -> None:
        """Raises KubeError for a list older than the last known version, unless the previous list was older, too.

        A single old list comes from a replica that lags behind. Two in a row mean that etcd was restored from a
        backup, and the old state is correct.
        """
        known, new = self._since, version
        numbers = integer(known), integer(new)
        was_behind = self._behind
        self._behind = numbers[0] is not None and numbers[1] is not None and numbers[1] < numbers[0]
        if self._behind and not was_behind:
            raise KubeError(
                0, OLDER_LIST, f"{self._resource.plural}: listed at version {new}, already known at {known}"
            )
        if self._behind:
            log.warning("the server has an older state", resource=self._resource.plural, version=new, known=known)
            self._behind = False

    async def _replace(self, listed: dict[Key, T]) -> None:
        for key in [key for key in self._objects if key not in listed]:
            self._set(key, None)
        async for part in in_batches(listed.items(), BATCH):
            for key, value in part:
                self._set(key, value)

    def _set(self, key: Key, after: T | None) -> None:
        before = self._objects.get(key)
        if before is after:
            return
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        reason = after.metadata.unreadable if after is not None else ""
        if self._on_change is not None:
            if before is not None and after is not None and before.metadata.uid != after.metadata.uid:
                reason = self._report(key, before, None) or reason
                before = None
            reason = self._report(key, before, after) or reason
        self._report_unreadable(key, reason)

    def _report_unreadable(self, key: Key, reason: str) -> None:
        """Reports why an object is unreadable. With an empty reason, removes the report: it is readable, or gone."""
        if reason:
            self._unreadable.add(key)
            self._kube.unreadable.add(self._resource.plural, object_name(*key), reason)
        elif key in self._unreadable:
            self._unreadable.remove(key)
            self._kube.unreadable.remove(self._resource.plural, object_name(*key))

    def _report(self, key: Key, before: T | None, after: T | None) -> str:
        """Calls `on_change`. Returns why the change could not be processed; empty if it was."""
        assert self._on_change is not None
        try:
            self._on_change(before, after)
        except Exception as error:  # whatever it is, the other objects are followed
            log.exception("a change was not processed", resource=self._resource.plural, object=object_name(*key))
            return f"its change was not processed: {type(error).__name__}: {error}"
        return ""

    def _stored_or_new(self, value: T, key: Key) -> T:
        """The stored object if it has the same version, else the new one, trimmed."""
        stored = self._objects.get(key)
        if stored is not None and stored.metadata.resource_version == value.metadata.resource_version:
            return stored
        return self._trimmed(value, key)

    def _trimmed(self, value: T, key: Key) -> T:
        try:
            trimmed = self._trim(value) if self._trim is not None else value
            if value.metadata.unreadable and not trimmed.metadata.unreadable:
                trimmed = _marked(trimmed, value.metadata.unreadable)
            return self._sharing.intern(trimmed, self._objects.get(key))
        except Exception as error:  # whatever it is, the other objects are followed
            log.exception("an object was not processed", resource=self._resource.plural, object=object_name(*key))
            return _marked(value, f"it was not processed: {type(error).__name__}: {error}")

    async def _check_activity(self) -> NoReturn:
        while (quiet := self._clock.monotonic() - self._received_at) < self._inactivity:
            await self._clock.sleep(self._inactivity - quiet)
        raise KubeError(0, INACTIVE, f"the watch of {self._resource.plural} had no events for {quiet:.0f} s")


def _key(value: Object) -> Key:
    return value.metadata.namespace, value.metadata.name


def _marked(value: T, reason: str) -> T:
    return msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, unreadable=reason))
