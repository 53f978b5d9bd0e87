"""`equipoise explain`: why a pod, a node or an eviction was decided on as it was."""
