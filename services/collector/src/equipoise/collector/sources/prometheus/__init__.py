"""Queries Prometheus, and anything with its HTTP API: Thanos, VictoriaMetrics, Mimir."""
