"""The dashboards as documents of Grafana, and the ConfigMaps that contain them.

Written without a library of builders: the version of Grafana's own is in the epoch of the package version, and it would
be one more dependency for four documents.
"""

from collections.abc import Iterator
from typing import Any

from monitoring.dashboards import DASHBOARDS, Dashboard, Panel

WIDTH = 24
"""Columns of Grafana's grid."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """The JSON model of Grafana, of version 11."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["equipoise"],
        "schemaVersion": 41,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "Equipoise",
                "tags": ["equipoise"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "namespace",
                    "label": "Namespace",
                    "type": "query",
                    "datasource": DATASOURCE,
                    "query": {"query": "label_values(equipoise_ready, namespace)", "refId": "namespace"},
                    "refresh": 2,
                    "sort": 1,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": list(_panels(dashboard)),
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """Rows one below the other; the panels of a row side by side, as many as fit."""
    number, y = 0, 0
    for row in dashboard.rows:
        number += 1
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            number += 1
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            x, height = x + panel.width, max(height, panel.height)
        y += height


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "range": panel.kind != "stat",
            "instant": panel.kind == "stat",
            "format": "heatmap" if panel.kind == "heatmap" else "time_series",
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": DATASOURCE,
        "targets": targets,
        **_appearance(panel),
    }


def _appearance(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "heatmap":
            return {
                "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
                "options": {
                    "calculate": False,
                    "cellGap": 1,
                    "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                    "legend": {"show": True},
                    "rowsFrame": {"layout": "le"},
                    "tooltip": {"mode": "single", "yHistogram": True},
                    "yAxis": {"unit": panel.unit, "axisPlacement": "left"},
                },
            }
        case "stat":
            return {
                "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
                "options": {"colorMode": "none", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
            }
        case "timeseries":
            stacking = "normal" if panel.stacked else "none"
            custom = {"fillOpacity": 10, "showPoints": "never", "stacking": {"group": "A", "mode": stacking}}
            return {
                "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
                "options": {
                    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                },
            }


def kustomization() -> dict[str, Any]:
    """A ConfigMap for each dashboard, with the label that the sidecar of Grafana reads."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "configMapGenerator": [
            {"name": dashboard.uid, "files": [f"{name(dashboard)}.json"]} for dashboard in DASHBOARDS
        ],
        "generatorOptions": {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}},
    }


def name(dashboard: Dashboard) -> str:
    """Of its file."""
    return dashboard.uid.removeprefix("equipoise-")
