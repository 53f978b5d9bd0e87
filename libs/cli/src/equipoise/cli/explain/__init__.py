"""`equipoise explain`: the reasons for the scores of a pod or a node, and for an eviction."""
