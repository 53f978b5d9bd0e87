"""`equipoise plan`: the evictions that the descheduler would propose now."""
