"""The configuration of k8s/base in compressed time, as in the demo: a day in minutes."""

from collections.abc import Mapping
from typing import Any

import yaml
from deployment.base import BASE, NAMESPACE

from equipoise.cli.demo.configuration import Placement, compressed_document, differences
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE

FACTOR = 225.0

Document = dict[str, Any]


def compressed_configuration(placement: Placement, settings: Document) -> Document:
    """`settings`: those of the test. Their durations are those of the trace."""
    base = yaml.safe_load((BASE / "equipoise.yaml").read_text())
    return compressed_document(merged(merged(base, _overlay(placement)), settings), FACTOR)


def _overlay(placement: Placement) -> Document:
    """Settings that compression requires, the excluded namespace of the trace, and shorter waits for the test."""
    overlay: Document = {
        "namespaces": {"exclude": ["kube-system", "kube-public", "kube-node-lease", NAMESPACE, EXCLUDED_NAMESPACE]},
        # Leases are not compressed; a replica that was killed must be replaced sooner than within a compressed day.
        "descheduler": {"leaderElection": {"leaseDuration": 4, "renewDeadline": 3, "retryPeriod": 0.5}},
        # Most of the time would be spent waiting for this limit.
        "binder": {"limits": {"evictionsPerCluster": {"max": "2%"}}},
    }
    for difference in differences(placement, sliced=False):
        overlay = merged(overlay, difference.document)
    return overlay


def merged(below: Any, above: Any) -> Any:
    """Two documents; values of `above` override those of `below`."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {
        name: merged(below[name], above[name]) if name in below and name in above else above.get(name, below.get(name))
        for name in (*below, *(name for name in above if name not in below))
    }
