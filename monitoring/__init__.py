"""Alerts, their runbooks, and dashboards: `make monitoring` writes the files for Prometheus, Grafana and people."""
