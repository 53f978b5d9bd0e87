"""`equipoise install`: checks the cluster, and runs Helm."""
