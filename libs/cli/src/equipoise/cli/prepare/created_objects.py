"""What `equipoise prepare` creates: the name of the ConfigMap, and the labels of all of it, which uninstall finds."""

from collections.abc import Mapping

from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.configuration.discovered import REASON
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, find

DISCOVERED = "equipoise-discovered"
"""The ConfigMap with the source of metrics, and the reason."""

LABELS: Mapping[str, str] = {
    "app.kubernetes.io/part-of": "equipoise",
    "app.kubernetes.io/managed-by": "equipoise-prepare",
}

MAX_REASON = 2_000
"""The largest number of characters that are shown of the reason."""


async def discovery_reason(kube: Kube, namespace: str) -> str:
    """Why the installation chose its source of metrics, or found none; empty if that is not stored.

    Raises KubeError.
    """
    stored = await find(kube, CONFIG_MAPS, DISCOVERED, namespace)
    return "" if stored is None else plain_text(stored.data.get(REASON, ""), MAX_REASON)
