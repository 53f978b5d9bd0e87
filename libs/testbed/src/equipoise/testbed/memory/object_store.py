"""The objects of the in-memory API server: versions, the history of changes, and watches."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, TypeVar, cast

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.kubernetes.client import Change, Expired, KubeError, Resource, error_for_status
from equipoise.testbed.memory.selectors import matches_field

T = TypeVar("T", bound=Object)
Key = tuple[str, str]
"""The namespace and name of an object."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A change for watches. A bookmark has no resource, and all watches receive it."""

    version: int
    resource: str
    change: Change[Any]
    before: Object | None = None


class ObjectStore:
    """Every object, in its last version. Watches that wait are woken by each change."""

    def __init__(self) -> None:
        self._version = 0
        self._compacted = 0
        self._objects: dict[str, dict[Key, Object]] = {}
        self._history: list[_Entry] = []
        self._changed = asyncio.Event()
        self._generation = 0
        self._ended_by: KubeError | None = None
        self._created: Counter[tuple[str, Key]] = Counter()

    def objects(self, resource: Resource[T]) -> dict[Key, T]:
        return cast("dict[Key, T]", self._objects.setdefault(_id(resource), {}))

    def sorted(self, resource: Resource[T]) -> list[T]:
        """Every object of a kind, in order of namespace and name."""
        objects = self.objects(resource)
        return [objects[key] for key in sorted(objects)]

    def find(self, resource: Resource[T], namespace: str, name: str) -> T:
        """The object. Raises KubeError (404)."""
        try:
            return self.objects(resource)[(namespace, name)]
        except KeyError:
            raise error_for_status(404, "NotFound", f'{resource.plural} "{name}" not found') from None

    def write(self, resource: Resource[T], value: T) -> T:
        """Stores an object with a new version, and returns it."""
        self._version += 1
        value = with_metadata(value, resource_version=str(self._version))
        before = self.objects(resource).get(key_of(value))
        self.objects(resource)[key_of(value)] = value
        kind: Literal["added", "modified"] = "modified" if before else "added"
        self._record(resource, Change(kind=kind, object=value, resource_version=str(self._version)), before)
        return value

    def remove(self, resource: Resource[T], name: str, namespace: str) -> None:
        """Removes an object. Raises KeyError if there is none."""
        before = self.objects(resource).pop((namespace, name))
        self._version += 1
        value = with_metadata(before, resource_version=str(self._version))
        self._record(resource, Change(kind="deleted", object=value, resource_version=str(self._version)), before)

    def new_uid(self, resource: Resource[Any], key: Key) -> str:
        """`uid-<name>`; with a number for the next objects of the same name."""
        self._created[_id(resource), key] += 1
        times = self._created[_id(resource), key]
        return f"uid-{key[1]}" if times == 1 else f"uid-{key[1]}-{times}"

    def compact(self) -> None:
        """Forgets the history. Running watches, and new watches from an earlier version, get status 410."""
        self._version += 1
        self._compacted = self._version
        self._history.clear()
        self._wake()

    def end_watches(self, error: KubeError | None) -> None:
        """Ends running watches: normally, as after their timeoutSeconds, or with an error."""
        self._generation += 1
        self._ended_by = error
        self._wake()

    def bookmark(self) -> None:
        """Sends a bookmark to running watches."""
        change: Change[Any] = Change(kind="bookmark", object=None, resource_version=str(self._version))
        self._history.append(_Entry(version=self._version, resource="", change=change))
        self._wake()

    async def watch(
        self, resource: Resource[T], since: str, namespace: str, field_selector: str, silent: Callable[[], bool]
    ) -> AsyncGenerator[Change[T], None]:
        """The changes after a version; without one, the present objects and then the changes. Raises KubeError.

        `silent`: whether the watch receives nothing at present, not even its end.
        """
        generation, kind = self._generation, _id(resource)

        def selected(value: Object | None) -> bool:
            return (
                value is not None
                and namespace in ("", value.metadata.namespace)
                and matches_field(value, field_selector)
            )

        current = int(since) if since else self._version
        # The number of entries of the history that this watch has received or does not need.
        passed = sum(entry.version <= current for entry in self._history)
        if not since:
            for value in self.sorted(resource):
                if selected(value):
                    yield Change(kind="added", object=value, resource_version=value.metadata.resource_version)
            yield Change(kind="bookmark", object=None, resource_version=str(current), synced=True)
        while True:
            while silent():
                await self._changed.wait()
            if current < self._compacted:
                raise Expired(410, "Expired", f"too old resource version: {current} ({self._compacted})")
            if generation != self._generation:
                if self._ended_by is not None:
                    raise self._ended_by
                return
            if passed == len(self._history):
                await self._changed.wait()
                continue
            entry = self._history[passed]
            current, passed = entry.version, passed + 1
            if not entry.resource:
                yield entry.change
            elif entry.resource == kind:
                seen = _seen(entry.change, selected(entry.before), selected(entry.change.object))
                if seen is not None:
                    yield seen

    def _record(self, resource: Resource[Any], change: Change[Any], before: Object | None) -> None:
        self._history.append(_Entry(version=self._version, resource=_id(resource), change=change, before=before))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def key_of(value: Object) -> Key:
    return value.metadata.namespace, value.metadata.name


def with_metadata(value: T, **fields: Any) -> T:
    return msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, **fields))


def _id(resource: Resource[Any]) -> str:
    return f"{resource.plural}.{resource.group}/{resource.subresource}"


def _seen(change: Change[T], was_selected: bool, is_selected: bool) -> Change[T] | None:
    """The change for a watch with a selector: "deleted" if the object no longer matches, "added" if it did not match
    before."""
    if change.kind == "deleted" or not is_selected:
        return msgspec.structs.replace(change, kind="deleted") if was_selected else None
    return change if was_selected else msgspec.structs.replace(change, kind="added")
