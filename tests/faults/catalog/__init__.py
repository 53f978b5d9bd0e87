"""The faults. Each one breaks something under traffic, repairs it, and waits until evictions continue."""

from collections.abc import Mapping

from faults.catalog import (
    agents,
    api_server,
    binders,
    changes,
    credentials,
    deschedulers,
    metrics,
    moves,
    nats,
    nats_cluster,
    nodes,
    poison,
    processes,
    reclaimers,
    restarts,
    scheduling,
    versions,
)
from faults.catalog.fault import LONG, SHORT, Extent, Fault

__all__ = ["FAULTS", "LONG", "SHORT", "Extent", "Fault"]

FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        *binders.FAULTS,
        *api_server.FAULTS,
        *changes.FAULTS,
        *nodes.FAULTS,
        *nats.FAULTS,
        *nats_cluster.FAULTS,
        *deschedulers.FAULTS,
        *metrics.FAULTS,
        *restarts.FAULTS,
        *processes.FAULTS,
        *scheduling.FAULTS,
        *credentials.FAULTS,
        *versions.FAULTS,
        *reclaimers.FAULTS,
        *agents.FAULTS,
        *poison.FAULTS,
        *moves.FAULTS,
    )
}
