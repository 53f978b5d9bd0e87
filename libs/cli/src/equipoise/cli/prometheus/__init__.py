"""The Prometheus of the cluster: its Service, the way to it, and its metrics."""
