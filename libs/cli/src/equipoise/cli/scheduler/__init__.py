"""`equipoise scheduler`: equipoise.scheduling as a second scheduler of a cluster (experimental)."""
