"""The cluster as it is now, read once from the API server and Prometheus: no service runs, nothing is written."""
