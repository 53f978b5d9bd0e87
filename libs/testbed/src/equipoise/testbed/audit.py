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


def evictions(log: Path) -> list[Eviction]:
    """Every eviction answered so far, by time."""
    return sorted((_eviction(event) for event in _answered(log, "eviction")), key=lambda eviction: eviction.time)


def bindings(log: Path) -> list[Binding]:
    """Every binding carried out so far, by time; refused ones are left out."""
    carried_out = (event for event in _answered(log, "binding") if 200 <= event["responseStatus"]["code"] < 300)
    return sorted((_binding(event) for event in carried_out), key=lambda binding: binding.time)


def _answered(log: Path, subresource: str) -> Iterator[dict[str, Any]]:
    """Every answered POST to that part of a pod; a line still being written is left for the next read."""
    if not log.exists():
        return
    mark = f'"{subresource}"'.encode()
    with log.open("rb") as lines:
        for line in lines:
            if mark not in line or not line.endswith(b"\n"):
                continue
            event = json.loads(line)
            target = event.get("objectRef") or {}
            asked = (target.get("resource"), target.get("subresource"))
            if asked == ("pods", subresource) and (event["stage"], event["verb"]) == ("ResponseComplete", "create"):
                yield event


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
