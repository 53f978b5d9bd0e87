"""Objects that the API server sent and that cannot be decoded, as the client and the reflectors report them."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.kubernetes.client import UnreadableObject
from equipoise.runtime.process.unreadable import UnreadableThings

T = TypeVar("T", bound=Object)


def object_name(namespace: str, name: str) -> str:
    """`namespace/name`, or the name alone."""
    return "/".join(filter(None, (namespace, name))) or "an object without a name"


def _name(value: Object) -> str:
    return object_name(value.metadata.namespace, value.metadata.name)


def required_readable(value: T, what: str, unreadable: UnreadableThings, plural: str) -> T:
    """The object, if all of it was decoded. Raises UnreadableObject; `what` names the request."""
    if value.metadata.unreadable:
        unreadable.add(plural, _name(value), value.metadata.unreadable)
        raise UnreadableObject(f"{what}: the object cannot be read: {value.metadata.unreadable}")
    unreadable.remove(plural, _name(value))
    return value


class UnreadableInLists:
    """Reports the unreadable objects in lists that are read periodically, until they are readable or no longer
    listed."""

    def __init__(self, unreadable: UnreadableThings) -> None:
        self._unreadable = unreadable
        self._names: dict[Hashable, set[str]] = {}
        """The names of unreadable objects, by selection."""

    def listed(self, selection: Hashable, plural: str, values: Iterable[Object]) -> None:
        """All objects of this kind that the selection contains."""
        reasons = {_name(value): value.metadata.unreadable for value in values if value.metadata.unreadable}
        for name in self._names.pop(selection, ()):
            if name not in reasons:
                self._unreadable.remove(plural, name)
        for name, reason in reasons.items():
            self._unreadable.add(plural, name, reason)
        if reasons:
            self._names[selection] = set(reasons)
