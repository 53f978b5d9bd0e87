"""Placement hints: what they cost, and which nodes kube-scheduler selects with them."""
