"""The API server's audit log, the witness of what was really evicted and where pods went."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, kw_only=True)
class Eviction:
    """One answered POST to `pods/eviction`."""

    namespace: str
    pod: str
    user: str
    time: datetime
    """When the request came in, on the API server's clock."""
    code: int
    """HTTP status: 201 evicted, 429 held by a disruption budget, 409 another UID."""
    dry_run: bool
    uid: str | None
    """The UID that the caller demanded, if any."""

    @property
    def carried_out(self) -> bool:
        return 200 <= self.code < 300 and not self.dry_run


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One pod that the scheduler bound to a node."""

    namespace: str
    pod: str
    node: str
    time: datetime
    """When the request came in, on the API server's clock."""


@dataclass(frozen=True, kw_only=True)
class PodWrite:
    """One write on a pod that succeeded, its creation, binding and eviction aside."""

    namespace: str
    pod: str
    verb: str
    """`patch`, `update`, `delete`."""
    subresource: str
    """`status` when its kubelet speaks; empty for the pod itself."""
    user: str
    time: datetime
    """When it was answered, on the API server's clock."""


def evictions(log: Path) -> list[Eviction]:
    """Every eviction answered so far, by time."""
    return sorted((_eviction(event) for event in _answered(log, "eviction")), key=lambda eviction: eviction.time)


def bindings(log: Path) -> list[Binding]:
    """Every binding carried out so far, by time; refused ones are left out."""
    carried_out = (event for event in _answered(log, "binding") if 200 <= event["responseStatus"]["code"] < 300)
    return sorted((_binding(event) for event in carried_out), key=lambda binding: binding.time)


def pod_writes(log: Path) -> list[PodWrite]:
    """Every write so far, by time."""
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


def _answered(log: Path, subresource: str) -> Iterator[dict[str, Any]]:
    """Every answered POST to that part of a pod."""
    for event in _events(log, f'"{subresource}"'.encode()):
        target = event.get("objectRef") or {}
        asked = (target.get("resource"), target.get("subresource"))
        if asked == ("pods", subresource) and (event["stage"], event["verb"]) == ("ResponseComplete", "create"):
            yield event


def _events(log: Path, mark: bytes) -> Iterator[dict[str, Any]]:
    """Lines that hold the mark; one that is still being written is left for the next read."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        for line in lines:
            if mark in line and line.endswith(b"\n"):
                yield json.loads(line)


def _eviction(event: dict[str, Any]) -> Eviction:
    target = event["objectRef"]
    options = (event.get("requestObject") or {}).get("deleteOptions") or {}
    asked = parse_qs(urlsplit(event["requestURI"]).query)
    return Eviction(
        namespace=target["namespace"],
        pod=target["name"],
        user=(event.get("user") or {}).get("username", ""),
        time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        code=event["responseStatus"]["code"],
        dry_run="All" in asked.get("dryRun", []) or "All" in (options.get("dryRun") or []),
        uid=(options.get("preconditions") or {}).get("uid"),
    )


def _binding(event: dict[str, Any]) -> Binding:
    return Binding(
        namespace=event["objectRef"]["namespace"],
        pod=event["objectRef"]["name"],
        node=event["requestObject"]["target"]["name"],
        time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
    )
