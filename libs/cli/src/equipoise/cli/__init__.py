"""The program `equipoise`, also installed as `kubectl-equipoise`."""
