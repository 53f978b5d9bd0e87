"""`health.>`: the state of each service process."""

from equipoise.contracts.messages.example import DESCHEDULER, NOW
from equipoise.contracts.messages.message import Message

REAL, DRY_RUN = "real", "dry run"
"""The two values of `Heartbeat.evictions` while evictions are possible."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """`health.<service>.<id>`, every 10 s."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []
    evictions: str = ""
    """Of a binder: `real`, `dry run`, or why it evicts nothing."""

    shard: str = ""
    """Of a collector: the part of the cluster that it shares with other replicas (`collector.shard`)."""

    at: float


HEARTBEAT = Heartbeat(service="descheduler", id=DESCHEDULER, version="0.1.0", ready=True, leading=True, at=NOW)
