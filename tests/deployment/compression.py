"""The configuration of k8s/base in compressed time: a day in minutes, as the demo has it.

What is laid over are lengths of time and what follows from a scrape each second; all else is the file itself.
"""

from collections.abc import Mapping
from typing import Any

import yaml
from deployment.base import BASE

from equipoise.cli.demo.configuration import compressed_document, equipoise_document
from equipoise.contracts.bus.subjects import SERVICES

FACTOR = 225.0

Document = dict[str, Any]


def compressed_configuration() -> Document:
    return compressed_document(merged(yaml.safe_load((BASE / "equipoise.yaml").read_text()), _overlay()), FACTOR)


def _overlay() -> Document:
    """The demo's own, without addresses and without its choice to evict."""
    ports = dict.fromkeys((*SERVICES, "extender"), 0)
    document = equipoise_document(
        kubeconfig="", prometheus_url="", nats_url="", ports=ports, neutral=False, sliced=False
    )
    kept: Document = {name: document[name] for name in ("load", "namespaces", "descheduler")}
    kept["collector"] = {name: document["collector"][name] for name in ("placementBatchPeriod", "profile")}
    del kept["descheduler"]["health"]
    # Seconds of Leases are not compressed; a replica that was killed must be missed sooner than in a day of minutes.
    kept["descheduler"]["leaderElection"] = {"leaseDuration": 4, "renewDeadline": 3, "retryPeriod": 0.5}
    # Or most of the time is spent waiting.
    kept["binder"] = {"limits": document["binder"]["limits"] | {"evictionsPerCluster": {"max": "2%"}}}
    return kept


def merged(below: Any, above: Any) -> Any:
    """Two documents, the one laid over the other."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {
        name: merged(below[name], above[name]) if name in below and name in above else above.get(name, below.get(name))
        for name in (*below, *(name for name in above if name not in below))
    }
