"""Decodes responses of the API server: errors, results of evictions, frames of a watch, pages of a list."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import CustomWorkload
from equipoise.contracts.plain_text import plain_text
from equipoise.contracts.unreadable.lenient_decoding import (
    DECODE_ERRORS,
    is_strict,
    read_envelope,
    read_item,
    read_object,
)
from equipoise.runtime.kubernetes.client import Change, EvictionResult, KubeError, Resource, error_for_status

T = TypeVar("T", bound=Object)
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
TEXT_LIMIT = 1_000
"""Characters of an error response's text that are kept. Webhooks and proxies send whole pages, and the outcomes of
evictions contain the text."""

MAX_RETRY_AFTER = 60.0
"""Maximum Retry-After in seconds: an error page of a proxy may request an hour."""

_BUDGET = re.compile(r"The disruption budget (\S+) (?:needs|is still being processed)")
"""Source: kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go, and its createTooManyRequestsError."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    causes: list[Cause] = []
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error response."""

    reason: str = ""
    message: str = ""
    code: int = 0
    details: Details = Details()


class ListMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_version: str = ""
    next: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list."""

    metadata: ListMeta
    listed: list[T] | None = msgspec.field(name="items")

    @property
    def items(self) -> list[T]:
        """An API server may answer null if there are no objects."""
        return self.listed or []


class _RawPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page whose objects are decoded one by one."""

    metadata: ListMeta
    listed: list[msgspec.Raw] | None = msgspec.field(name="items")


class GroupVersion(msgspec.Struct, frozen=True, kw_only=True):
    version: str


class DiscoveredGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An API group, as in discovery."""

    preferred_version: GroupVersion
    versions: list[GroupVersion] | None = None


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that is served. A subresource has the name "<plural>/<subresource>", and the kind of its own body."""

    name: str
    kind: str
    namespaced: bool = False


class Kinds(msgspec.Struct, frozen=True, kw_only=True):
    resources: list[Kind] | None = None


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    git_version: str


def read_version(body: bytes) -> str:
    return _version_decoder.decode(body).git_version


_version_decoder = msgspec.json.Decoder(ServerVersion)
read_group = msgspec.json.Decoder(DiscoveredGroup).decode
read_kinds = msgspec.json.Decoder(Kinds).decode


def scalable(kinds: Kinds, *, group: str, version: str, kind: str) -> Resource[CustomWorkload] | None:
    """The resource of this kind, if it is namespaced and has the scale subresource."""
    served_kinds = kinds.resources or ()
    names = {served.name for served in served_kinds}
    plurals = (served.name for served in served_kinds if served.kind == kind and served.namespaced)
    plural = next((name for name in plurals if "/" not in name and f"{name}/scale" in names), None)
    if plural is None:
        return None
    return Resource(group=group, version=version, plural=plural, kind=kind, model=CustomWorkload)


class _Event(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One line of a watch with an object whose fields can all be decoded."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Any line of a watch. The object of a bookmark is not a valid one (a Pod without containers)."""

    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta


_frame = msgspec.json.Decoder(_Frame)
_bookmark = msgspec.json.Decoder(_Bookmark)
_status = msgspec.json.Decoder(Status)
_raw_page = msgspec.json.Decoder(_RawPage)


@cache
def _page_decoder(model: type[T]) -> msgspec.json.Decoder[Page[T]]:
    return msgspec.json.Decoder(Page[model], strict=is_strict(model))  # type: ignore[valid-type]


def read_page(body: bytes, model: type[T]) -> Page[T]:
    """A page of a list. An object that cannot be decoded is marked as such; the others are decoded.

    A page whose objects can all be decoded is decoded at once, which takes a third of the time. Raises
    msgspec.DecodeError if the page itself cannot be decoded.
    """
    try:
        return _page_decoder(model).decode(body)
    except DECODE_ERRORS:
        raw = read_envelope(_raw_page, body)
        items = None if raw.listed is None else [read_item(item, model) for item in raw.listed]
        return Page(metadata=raw.metadata, listed=items)


@cache
def _event_decoder(model: type[T]) -> msgspec.json.Decoder[_Event[T]]:
    return msgspec.json.Decoder(_Event[model], strict=is_strict(model))  # type: ignore[valid-type]


_CHANGES: Mapping[str, Literal["added", "modified", "deleted"]] = {
    "ADDED": "added",
    "MODIFIED": "modified",
    "DELETED": "deleted",
}


def read_change(line: bytes | bytearray, resource: Resource[T]) -> Change[T]:
    """One line of a watch. Raises KubeError for an ERROR frame (Expired for 410), msgspec.DecodeError if invalid.

    An object that cannot be decoded is marked as such. It has a name: an event without one is invalid.
    """
    try:
        event = _event_decoder(resource.model).decode(line)
    except DECODE_ERRORS:
        return _read_other_change(bytes(line), resource)
    return _change(event.type, event.object)


def _change(event: str, value: T) -> Change[T]:
    metadata = value.metadata
    if metadata.unreadable and not metadata.name:  # if it was skipped, a deletion could be missed
        raise msgspec.DecodeError(f"an event of an object without a name: {metadata.unreadable}")
    return Change(kind=_CHANGES[event], object=value, resource_version=metadata.resource_version)


def _read_other_change(line: bytes, resource: Resource[T]) -> Change[T]:
    """A change of an object that cannot be decoded completely, a bookmark or an error."""
    frame = read_envelope(_frame, line)
    match frame.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return _change(frame.type, read_object(frame.object, resource.model))
        case "BOOKMARK":
            metadata = _bookmark.decode(frame.object).metadata
            return Change(
                kind="bookmark",
                object=None,
                resource_version=metadata.resource_version,
                synced=metadata.annotations.get(INITIAL_EVENTS_END) == "true",
            )
        case "ERROR":
            status = _status.decode(frame.object)
            raise error_for_status(status.code, status.reason, f"watch {resource.plural}: {status.message}")
        case _:
            raise msgspec.DecodeError(f"unknown type of watch event: {frame.type[:TEXT_LIMIT]}")


def read_error(status: int, headers: Mapping[str, str], body: bytes, what: str) -> KubeError:
    """The error of a response. `what` names the verb and the object. Flow control and proxies respond in plain text."""
    reply = _status_of(body)
    if status == 422 and any(cause.field == "metadata.uid" for cause in reply.details.causes):
        # The API server refuses a patch with "field is immutable" if the object has another UID.
        return error_for_status(409, "Conflict", f"{what}: another object of this name: {reply.message}")
    return error_for_status(status, reply.reason, f"{what}: {reply.message}", _retry_after(headers, reply))


def read_eviction(status: int, headers: Mapping[str, str], body: bytes) -> EvictionResult:
    reply = _status_of(body)
    causes = [cause for cause in reply.details.causes if cause.reason == "DisruptionBudget"] if status == 429 else []
    budget = _BUDGET.match(causes[0].message) if causes else None
    return EvictionResult(
        status=status,
        reason=reply.reason,
        message=" ".join(filter(None, (reply.message, causes[0].message if causes else "")))[:TEXT_LIMIT],
        disruption_budget=bool(causes),
        budget=budget[1] if budget else "",
        retry_after=_retry_after(headers, reply),
    )


def as_body(resource: Resource[T], value: T) -> dict[str, Any]:
    """An object as the body of a request.

    Every time has six digits after the point: MicroTime (leases, events) requires them, Time allows them.
    """
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    body = _with_text_times(msgspec.to_builtins(value, builtin_types=(datetime,)))
    return {**body, "apiVersion": version, "kind": resource.kind}


def _with_text_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_text_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_times(item) for item in value]
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def _status_of(body: bytes) -> Status:
    try:
        status = _status.decode(body)
        return msgspec.structs.replace(
            status, message=plain_text(status.message, TEXT_LIMIT), reason=plain_text(status.reason, TEXT_LIMIT)
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Status(message=plain_text(body[:TEXT_LIMIT].decode(errors="replace").strip(), TEXT_LIMIT))


def _retry_after(headers: Mapping[str, str], reply: Status) -> float | None:
    header = headers.get("Retry-After", "")
    if header.isdecimal():
        return min(float(header), MAX_RETRY_AFTER)
    seconds = reply.details.retry_after_seconds
    return min(float(seconds), MAX_RETRY_AFTER) if seconds else None
