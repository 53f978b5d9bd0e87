"""`equipoise prepare`: what the pods wait for, created before they start: passwords and certificates."""
