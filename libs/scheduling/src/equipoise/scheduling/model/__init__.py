"""Pods, nodes and the state of a cluster, as plugins read them."""
