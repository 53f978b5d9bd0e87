"""`equipoise completion`: shell completion."""
