"""`equipoise version`."""
