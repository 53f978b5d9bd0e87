"""`equipoise status`: pause, pending evictions and usage of limits."""
