"""The live view of the cluster, for `equipoise dashboard` and `equipoise top`."""
