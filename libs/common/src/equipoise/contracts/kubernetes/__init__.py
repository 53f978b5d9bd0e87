"""Kubernetes objects, quantities, labels, owners and annotations, as far as Equipoise reads and writes them."""
