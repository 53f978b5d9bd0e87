"""Reads the audit log of the API server: which pods were created, evicted, and bound to which nodes, which endpoints
were ready, and all writes of a client or to a kind of object."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_SERVICE_NAME = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""


@dataclass(frozen=True, kw_only=True)
class LoggedEviction:
    """One completed POST to `pods/eviction`."""

    namespace: str
    pod: str
    user: str
    time: datetime
    """The time at which the request came in, on the API server's clock."""
    code: int
    """HTTP status: 201 evicted, 429 blocked by a PodDisruptionBudget, 409 the UID differs."""
    dry_run: bool
    uid: str | None
    """The UID in the preconditions of the request, if any."""
    id: str
    """The header `Audit-ID` of the request, or one that the API server chose."""

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300 and not self.dry_run


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One pod that the scheduler bound to a node."""

    namespace: str
    pod: str
    node: str
    time: datetime
    """The time at which the request came in, on the API server's clock."""


@dataclass(frozen=True, kw_only=True)
class PodWrite:
    """One successful write to a pod, other than its creation, binding or eviction."""

    namespace: str
    pod: str
    verb: str
    """`patch`, `update`, `delete`."""
    subresource: str
    """The subresource: `status` for writes of the kubelet, empty for the pod itself."""
    user: str
    time: datetime
    """The time at which the response was sent, on the API server's clock."""


@dataclass(frozen=True, kw_only=True)
class WrittenSlice:
    """An EndpointSlice after a successful write."""

    service: str
    """`namespace/name` of its Service."""
    name: str
    ready: frozenset[str]
    """UIDs of the pods whose endpoints are ready, or the address of what is no pod. Empty after its deletion."""
    time: datetime
    """The time at which the request came in, on the API server's clock."""


@dataclass(frozen=True, kw_only=True)
class LoggedWrite:
    """One completed request that is a write."""

    user: str
    verb: str
    resource: str
    """The resource with its subresource: `nodes/status`."""
    namespace: str
    """Empty if the resource has none."""
    name: str
    time: datetime
    """The time at which the request came in, on the API server's clock."""
    code: int
    body: dict[str, Any]
    """The body of the request; empty if it is not logged."""
    id: str
    """The header `Audit-ID` of the request, or one that the API server chose."""


def evictions(log: Path) -> list[LoggedEviction]:
    """All completed evictions, ordered by time."""
    return sorted((_eviction(event) for event in _completed(log, "eviction")), key=lambda eviction: eviction.time)


def bindings(log: Path) -> list[Binding]:
    """All successful bindings, ordered by time."""
    found = [
        Binding(
            namespace=event["objectRef"]["namespace"],
            pod=event["objectRef"]["name"],
            node=event["requestObject"]["target"]["name"],
            time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        )
        for event in _completed(log, "binding")
        if 200 <= event["responseStatus"]["code"] < 300
    ]
    return sorted(found, key=lambda binding: binding.time)


def created_pods(log: Path) -> dict[tuple[str, str], datetime]:
    """The time at which the request that created each pod came in, by namespace and name, without generated names."""
    return {
        (event["objectRef"]["namespace"], name): datetime.fromisoformat(event["requestReceivedTimestamp"])
        for event in _events(log, b'"create"')
        if (event.get("objectRef") or {}).get("resource") == "pods"
        and "subresource" not in event["objectRef"]
        and (event["stage"], event["verb"]) == ("ResponseComplete", "create")
        and 200 <= event["responseStatus"]["code"] < 300
        and (name := event["objectRef"].get("name", ""))
    }


def pod_writes(log: Path) -> list[PodWrite]:
    """All successful writes, ordered by time."""
    writes = [
        PodWrite(
            namespace=event["objectRef"]["namespace"],
            pod=event["objectRef"].get("name", ""),
            verb=event["verb"],
            subresource=event["objectRef"].get("subresource", ""),
            user=(event.get("user") or {}).get("username", ""),
            time=datetime.fromisoformat(event["stageTimestamp"]),
        )
        for event in _events(log, b'"pods"')
        if (event.get("objectRef") or {}).get("resource") == "pods"
        and event["stage"] == "ResponseComplete"
        and event["verb"] != "create"
        and 200 <= event["responseStatus"]["code"] < 300
    ]
    return sorted(writes, key=lambda write: write.time)


def written_slices(log: Path) -> list[WrittenSlice]:
    """The EndpointSlices of Services after each successful write, ordered by time."""
    service_of: dict[tuple[str, str], str] = {}
    writes = []
    for event in _events(log, b'"endpointslices"'):
        target = event.get("objectRef") or {}
        if (target.get("resource"), event["stage"]) != ("endpointslices", "ResponseComplete"):
            continue
        if not 200 <= event["responseStatus"]["code"] < 300:
            continue
        written = event.get("responseObject") or {}
        deleted = event["verb"] == "delete"
        metadata = {"name": target.get("name"), **(written.get("metadata") or {})}
        name = (target["namespace"], metadata["name"])
        if not deleted:
            service_of[name] = (metadata.get("labels") or {}).get(_SERVICE_NAME, "")
        if service := service_of.get(name):
            writes.append(
                WrittenSlice(
                    service=f"{name[0]}/{service}",
                    name=name[1],
                    ready=frozenset() if deleted else _ready_pods(written),
                    time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
                )
            )
    return sorted(writes, key=lambda write: write.time)


def _ready_pods(endpoint_slice: dict[str, Any]) -> frozenset[str]:
    """A condition that is not set counts as ready, as the API defines it."""
    return frozenset(
        (endpoint.get("targetRef") or {}).get("uid", "") or endpoint["addresses"][0]
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    )


def writes_of(log: Path, user: str) -> list[LoggedWrite]:
    """The writes of the users whose names begin with `user`, ordered by time."""
    found = [
        _write(event, event.get("requestObject") or {})
        for event in _events(log, user.encode())
        if (event.get("user") or {}).get("username", "").startswith(user) and event["stage"] == "ResponseComplete"
    ]
    return sorted(found, key=lambda write: write.time)


def writes_to(log: Path, resource: str) -> list[LoggedWrite]:
    """The successful writes to the objects of a resource, such as `endpointslices`, ordered by time."""
    found = [
        _write(event, event.get("requestObject") or {})
        for event in _events(log, f'"{resource}"'.encode())
        if event["stage"] == "ResponseComplete" and 200 <= event["responseStatus"]["code"] < 300
    ]
    return sorted((write for write in found if write.resource == resource), key=lambda write: write.time)


def refused_pods(log: Path) -> list[LoggedWrite]:
    """The requests to create or bind a pod that were refused, except with 404 or 409. Ordered by time."""
    found = [
        _write(event, {})
        for event in _events(log, b'"create"')
        if (event.get("objectRef") or {}).get("resource") == "pods"
        and event["objectRef"].get("subresource") in (None, "binding")
        and (event["stage"], event["verb"]) == ("ResponseComplete", "create")
        and event["responseStatus"]["code"] >= 400
        and event["responseStatus"]["code"] not in (404, 409)
    ]
    return sorted(found, key=lambda write: write.time)


def _completed(log: Path, subresource: str) -> Iterator[dict[str, Any]]:
    """All completed POST requests to this subresource of pods."""
    for event in _events(log, f'"{subresource}"'.encode()):
        target = event.get("objectRef") or {}
        requested = (target.get("resource"), target.get("subresource"))
        if requested == ("pods", subresource) and (event["stage"], event["verb"]) == ("ResponseComplete", "create"):
            yield event


def _events(log: Path, text: bytes) -> Iterator[dict[str, Any]]:
    """Events of the lines that contain `text`. An incomplete last line is left for the next read."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        for line in lines:
            if text in line and line.endswith(b"\n"):
                yield json.loads(line)


def _write(event: dict[str, Any], body: dict[str, Any]) -> LoggedWrite:
    target = event.get("objectRef") or {}
    return LoggedWrite(
        user=(event.get("user") or {}).get("username", ""),
        verb=event["verb"],
        resource="/".join(filter(None, (target.get("resource", ""), target.get("subresource", "")))),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        code=event["responseStatus"]["code"],
        body=body,
        id=event["auditID"],
    )


def _eviction(event: dict[str, Any]) -> LoggedEviction:
    target = event["objectRef"]
    options = (event.get("requestObject") or {}).get("deleteOptions") or {}
    query = parse_qs(urlsplit(event["requestURI"]).query)
    return LoggedEviction(
        namespace=target["namespace"],
        pod=target["name"],
        user=(event.get("user") or {}).get("username", ""),
        time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        code=event["responseStatus"]["code"],
        dry_run="All" in query.get("dryRun", []) or "All" in (options.get("dryRun") or []),
        uid=(options.get("preconditions") or {}).get("uid"),
        id=event["auditID"],
    )
