"""`equipoise uninstall`: the release, and everything that Equipoise has written into the cluster."""
