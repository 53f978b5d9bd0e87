"""Checks of what Prometheus has: its series, the load of the nodes, and pressure."""
