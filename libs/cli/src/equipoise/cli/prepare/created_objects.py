"""What `equipoise prepare` creates: the name of the ConfigMap, and the labels of all of it, which uninstall finds."""

from collections.abc import Mapping

DISCOVERED = "equipoise-discovered"
"""The ConfigMap with the source of metrics, and the reason."""

LABELS: Mapping[str, str] = {
    "app.kubernetes.io/part-of": "equipoise",
    "app.kubernetes.io/managed-by": "equipoise-prepare",
}
