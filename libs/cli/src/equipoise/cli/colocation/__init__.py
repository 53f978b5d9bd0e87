"""`equipoise colocation`: manifests of profiles."""
