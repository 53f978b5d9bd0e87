"""`equipoise dashboard`: a live page of the cluster."""
