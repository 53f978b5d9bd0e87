"""`equipoise explain eviction`: what became of a pod, from the samples to its replacement."""
