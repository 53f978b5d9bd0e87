"""`equipoise colocation`: manifests that make pods use what others leave idle."""
