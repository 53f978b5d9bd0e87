"""What the scorer costs, and what a scorer that fails costs kube-scheduler."""
