"""`health.>` and `configuration.>`: the state and the configuration of each service process."""

from typing import Any

from equipoise.contracts.bounds import Time, implausible_document
from equipoise.contracts.messages.example import DESCHEDULER, NOW
from equipoise.contracts.messages.message import Message

REAL, DRY_RUN = "real", "dry run"
"""The two values of `Heartbeat.evictions` while evictions are possible."""

HEARTBEAT_PERIOD = 10.0
"""Seconds between two heartbeats of a process."""

HEARTBEAT_LIFETIME = 3.5 * HEARTBEAT_PERIOD
"""Seconds after its last heartbeat for which a process counts as running: two lost heartbeats change nothing."""

CONFIGURATION_PERIOD = 30.0
"""Seconds after which a process publishes its configuration again, even if nothing has changed."""

CONFIGURATION_LIFETIME = 2.5 * CONFIGURATION_PERIOD
"""Seconds for which a configuration counts as current. A process that is silent for longer has ended, or is not
connected."""

CONFIGURATION_KEPT = 3_600.0
"""Seconds for which the stream keeps the configuration of a process that has ended."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """`health.<service>.<id>`: the state of a process, every 10 s."""

    service: str
    id: str
    version: str
    ready: bool
    leading: bool | None = None
    problems: list[str] = []
    evictions: str = ""
    """The mode of a binder: `real`, `dry run`, or why it evicts nothing."""

    surge_pods: list[str] = []
    """The UIDs of the pods that are moved without a gap, as a binder last read them in the ledger."""

    campaign: str = ""
    """The running campaign and its progress, as a binder last read it in the ledger; empty without one."""

    campaign_permits: bool = False
    """Whether that campaign permits moves now: it is neither paused nor held, and its budget is not used."""

    shard: str = ""
    """The part of the cluster that a collector shares with other replicas (`collector.shard`)."""

    at: Time


HEARTBEAT = Heartbeat(service="descheduler", id=DESCHEDULER, version="0.1.0", ready=True, leading=True, at=NOW)


class EffectiveConfiguration(Message, frozen=True, kw_only=True):
    """`configuration.<service>.<id>`: published at start, on a change, every 30 s and at the end. The last one is
    kept."""

    service: str
    id: str
    version: str
    hash: str
    """A hash of everything that the service reads, defaults included."""

    settings: dict[str, Any]
    """The shared sections and the section of the service, as in a configuration file, defaults included and without
    secrets and names of files."""

    leading: bool | None = None
    evictions: str = ""
    """The same text as in a heartbeat."""

    started_at: Time
    at: Time
    stopped: bool = False
    """Whether the process has stopped, or continues with another configuration under another id."""

    @property
    def implausible(self) -> str:
        problem = implausible_document(self.settings)
        return f"its settings have {problem}" if problem else ""


EFFECTIVE_CONFIGURATION = EffectiveConfiguration(
    service="binder",
    id="binder-7c9d-d4e5f6",
    version="0.1.0",
    hash="3f9a0c1b2d4e",
    settings={"thresholds": {"high": {"cpu": 65.0, "memory": 80.0}}, "binder": {"evict": False}},
    evictions="dry run",
    started_at=NOW - 300,
    at=NOW,
)
