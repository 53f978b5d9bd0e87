"""The ConfigMap that `equipoise prepare` creates, and the labels by which `equipoise uninstall` finds it."""

from collections.abc import Mapping

DISCOVERED = "equipoise-discovered"
"""The ConfigMap with the source of metrics, and the reason."""

LABELS: Mapping[str, str] = {
    "app.kubernetes.io/part-of": "equipoise",
    "app.kubernetes.io/managed-by": "equipoise-prepare",
}
