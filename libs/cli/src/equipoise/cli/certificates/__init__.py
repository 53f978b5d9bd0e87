"""`equipoise certificates`: TLS certificates for the scorer and kube-scheduler, and for NATS."""
