"""`equipoise resume`: evictions after a pause."""
