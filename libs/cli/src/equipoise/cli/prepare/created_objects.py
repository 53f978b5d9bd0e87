"""What `equipoise prepare` creates: the name of the ConfigMap, and the labels of all of it, which uninstall finds."""

from collections.abc import Mapping
from typing import NamedTuple

from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.configuration.discovered import REASON
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, find

DISCOVERED = "equipoise-discovered"
"""The ConfigMap with the source of metrics, and the reason."""

FILE = "equipoise.yaml"
"""The key of the ConfigMap with a configuration file that names the source."""

LABELS: Mapping[str, str] = {
    "app.kubernetes.io/part-of": "equipoise",
    "app.kubernetes.io/managed-by": "equipoise-prepare",
}

MAX_REASON = 2_000
"""The largest number of characters that are shown of the reason."""


class StoredSource(NamedTuple):
    """What the ConfigMap of an installation has."""

    reason: str
    """Why the installation chose its source of metrics, or found none."""

    is_prometheus: bool
    """Whether it found a Prometheus."""


async def stored_source(kube: Kube, namespace: str) -> StoredSource | None:
    """The source of metrics that the installation found; None if nothing is stored. Raises KubeError."""
    stored = await find(kube, CONFIG_MAPS, DISCOVERED, namespace)
    if stored is None or not (reason := plain_text(stored.data.get(REASON, ""), MAX_REASON)):
        return None
    try:
        document = read_document(stored.data.get(FILE, ""))
    except ConfigurationError:
        return StoredSource(reason, is_prometheus=False)
    return StoredSource(reason, "prometheus" in document.get("collector", {}))
