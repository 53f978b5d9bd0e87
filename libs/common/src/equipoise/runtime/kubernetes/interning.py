"""Stores equal parts of many objects once: the pods of a workload differ in little but their names."""

from sys import intern
from typing import Any, TypeVar

import msgspec

from equipoise.contracts.kubernetes import objects

T = TypeVar("T", bound=objects.Object)

OWN_TEXTS = frozenset({"name", "uid", "resource_version"})
"""Of one object only: there is nothing to share."""

PARTS_LIMIT = 100_000
"""Maximum number of known parts; then all are forgotten, so that parts of deleted objects do not accumulate."""

_NO_ITEMS: list[Any] = []
_NO_ENTRIES: dict[str, Any] = {}


class Interner:
    """Makes equal labels, containers, tolerations... of objects of one kind the same values in memory.

    Objects are frozen and their parts are never changed, so sharing has no other effect.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def intern(self, value: T) -> T:
        """An equal object whose metadata and spec consist of shared parts. Its status is not shared."""
        fields: dict[str, Any] = {"metadata": self._section(value.metadata)}
        spec = getattr(value, "spec", None)
        if isinstance(spec, msgspec.Struct):
            fields["spec"] = self._section(spec)
        return msgspec.structs.replace(value, **fields)

    def _section(self, section: msgspec.Struct) -> msgspec.Struct:
        changed = {}
        for name in section.__struct_fields__:
            part = getattr(section, name)
            if type(part) is str:
                if name not in OWN_TEXTS:
                    changed[name] = intern(part)
            elif isinstance(part, (list, dict, msgspec.Struct)):
                changed[name] = self._part(name, part)
        return msgspec.structs.replace(section, **changed)

    def _part(self, name: str, part: Any) -> Any:
        if not part:
            return _NO_ITEMS if isinstance(part, list) else _NO_ENTRIES
        if len(self._parts) >= PARTS_LIMIT:
            self._parts.clear()
        return self._parts.setdefault((name, self._encode(part)), part)
