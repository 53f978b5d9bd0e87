"""`health.>`: whether each service is well."""

from equipoise.contracts.messages.message import Message

REAL, DRY_RUN = "real", "dry run"
"""What binders say of their evictions while nothing keeps them from any."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """`health.<service>.<id>`, every 10 s."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []
    evictions: str = ""
    """Of a binder: `real`, `dry run`, or why it carries out nothing."""

    shard: str = ""
    """Of a collector: the part of the cluster that it shares with others of the same (`collector.shard`)."""

    at: float
