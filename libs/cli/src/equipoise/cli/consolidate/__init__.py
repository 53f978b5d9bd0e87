"""`equipoise consolidate`: which nodes the cluster could do without, and what that saves."""
